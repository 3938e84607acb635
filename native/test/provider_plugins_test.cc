#include "ort/provider_plugins.h"

#include "fake_onnxruntime_test.h"

namespace zerohop::ort {
namespace {

// Each test runs in a process of its own: plugins are never taken out of it.
class ProviderPluginsTest : public FakeOrtTest {
 protected:
  std::string refusal(const std::string& name, const std::string& path) const {
    try {
      registerPlugin(library, name, path);
    } catch (const OrtError& error) {
      return error.what();
    }
    return "";
  }
};

constexpr char kPath[] = "/plugins/two-devices.so";

TEST_F(ProviderPluginsTest, TellsTheDevicesOfAPlugin) {
  const auto devices = registerPlugin(library, "two", kPath);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].provider, "FirstExecutionProvider");
  EXPECT_EQ(devices[0].providerVendor, "") << "one without a vendor";
  EXPECT_EQ(devices[1].kind, HardwareKind::kNpu);
  EXPECT_EQ(devices[1].hardwareVendor, "a vendor");
  EXPECT_EQ(devices[1].metadata, (Entries{{"version", "1"}}));
}

TEST_F(ProviderPluginsTest, RegistersAPluginOnce) {
  registerPlugin(library, "two", kPath);
  EXPECT_EQ(registerPlugin(library, "two", kPath).size(), 2u);
  EXPECT_EQ(counts.set, "registered two ");
}

TEST_F(ProviderPluginsTest, RefusesANameOrALibraryThatIsTaken) {
  registerPlugin(library, "two", kPath);
  EXPECT_EQ(refusal("two", "/other.so"), "this process has the plugin /plugins/two-devices.so under the name two already");
  EXPECT_EQ(refusal("second", kPath), "this process has that plugin under the name two already");
}

TEST_F(ProviderPluginsTest, SaysWhyAPluginCannotBeLoadedAndMayTryAgain) {
  EXPECT_EQ(refusal("two", "/missing.so"), "/missing.so: cannot open shared object file");
  EXPECT_EQ(refusal("two", kPath), "");
}

TEST_F(ProviderPluginsTest, HasASessionUseADeviceWithOptions) {
  registerPlugin(library, "two", kPath);
  counts.set.clear();
  makeSessionOptions(library, {{"plugin", "two", "1", {{"streams", "2"}}}});
  EXPECT_EQ(counts.set, "SecondExecutionProvider streams=2");
}

TEST_F(ProviderPluginsTest, RefusesADeviceThatIsNotThere) {
  EXPECT_THROW(makeSessionOptions(library, {{"plugin", "two", "0", {}}}), OrtError) << "not registered";
  registerPlugin(library, "none", "/plugins/without-devices.so");
  EXPECT_THROW(makeSessionOptions(library, {{"plugin", "none", "0", {}}}), OrtError);
}

TEST_F(ProviderPluginsTest, TriesAPluginByRunningAModel) {
  registerPlugin(library, "none", "/plugins/without-devices.so");
  tryPlugin(library, "none");
  EXPECT_EQ(counts.runs, 0);
  registerPlugin(library, "two", kPath);
  tryPlugin(library, "two");
  EXPECT_EQ(counts.runs, 1);
}

TEST_F(ProviderPluginsTest, PassesOnWhateverFails) {
  for (const int entry : {301, 303}) {
    counts.failAt = entry;
    EXPECT_EQ(refusal("two", kPath), "entry " + std::to_string(entry) + " failed on purpose");
  }
  counts.failAt = 125;
  EXPECT_THROW(builtInProviders(library), OrtError);
  counts.failAt = -1;
  registerPlugin(library, "two", kPath);
  for (const int entry : {8, 9, 304}) {
    counts.failAt = entry;
    EXPECT_THROW(tryPlugin(library, "two"), OrtError) << entry;
  }
  counts.failAt = -1;
}

TEST_F(ProviderPluginsTest, NamesWhatIsBuiltIn) {
  EXPECT_EQ(builtInProviders(library), (std::vector<std::string>{"CPUExecutionProvider", "CUDAExecutionProvider"}));
}

}  // namespace
}  // namespace zerohop::ort

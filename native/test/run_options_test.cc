#include "ort/run_options.h"

#include "fake_onnxruntime_test.h"

namespace zerohop::ort {
namespace {

class RunOptionsTest : public FakeOrtTest {
 protected:
  std::shared_ptr<Session> openWith(const std::vector<SessionSetting>& settings, const std::string& model = "plus-one") {
    Opening opening;
    return std::make_shared<Session>(library, ModelSource{model, nullptr, 0, 0}, settings, opening);
  }

  // Whether a run with these options ends at once because it was told to.
  bool isStopped(const OrtRunOptions* options) {
    const auto session = openWith({}, "until-stopped");
    ValueCopies feeds(1);
    feeds[0].emplace();
    feeds[0]->tensor = TensorCopy{ElementType::kFloat32, {1, 4}, {}, 16, {}};
    feeds[0]->tensor.bytes.reset(std::calloc(4, sizeof(float)));
    const std::vector<Place> apart{Place{Place::Kind::kApart, 0, {}}};
    try {
      PreparedRun(session, {}, apart, apart).run(options, feeds);
    } catch (const OrtError&) {
      return true;
    }
    return false;
  }

  const std::vector<SessionSetting> entries{{"runConfig", "a", "1", {}}};
};

TEST_F(RunOptionsTest, AreTheSameForSessionsThatAskForTheSame) {
  RunOptions options(library);
  const auto plain = openWith({}), first = openWith(entries), second = openWith(entries);
  EXPECT_EQ(options.of(*first), options.of(*second));
  EXPECT_NE(options.of(*first), options.of(*plain));
  EXPECT_EQ(counts.set, "a=1 ") << "set once";
}

TEST_F(RunOptionsTest, StopAllRunsUntilTheyMayGoOn) {
  RunOptions options(library);
  const auto plain = openWith({}), first = openWith(entries), later = openWith({{"runConfig", "b", "1", {}}});
  const OrtRunOptions* before = options.of(*first);
  options.stop();
  for (const OrtRunOptions* each : {options.of(*plain), before, options.of(*later)}) EXPECT_TRUE(isStopped(each));
  options.goOn();
  for (const OrtRunOptions* each : {options.of(*plain), before, options.of(*later)}) EXPECT_FALSE(isStopped(each));
}

TEST_F(RunOptionsTest, PassOnAnEntryThatIsRefused) {
  RunOptions options(library);
  const auto session = openWith(entries);
  counts.failAt = 165;
  EXPECT_THROW(options.of(*session), OrtError);
  counts.failAt = -1;
  EXPECT_NE(options.of(*session), nullptr);
}

}  // namespace
}  // namespace zerohop::ort

#include "ort/value_copy.h"

#include <cstring>

#include "fake_onnxruntime_test.h"

namespace zerohop::ort {
namespace {

using Kind = ValueCopy::Kind;
const Place kBeside{Place::Kind::kApart, 0, {}};

TensorCopy tensor(ElementType type, std::vector<std::int64_t> dims, const void* bytes) {
  TensorCopy copy;
  copy.type = type;
  copy.dims = std::move(dims);
  copy.byteLength = byteLengthOf(type, elementCount(copy.dims));
  copy.bytes.reset(std::malloc(copy.byteLength > 0 ? copy.byteLength : 1));
  if (copy.byteLength > 0) std::memcpy(copy.bytes.get(), bytes, copy.byteLength);
  return copy;
}

template <typename T>
std::vector<T> elements(const TensorCopy& copy) {
  const auto* first = static_cast<const T*>(copy.bytes.get());
  return {first, first + elementCount(copy.dims)};
}

class ValueCopyTest : public FakeOrtTest {
 protected:
  ValueCopies run(const std::string& model, std::vector<float> x = {0, 1, 2, 3, 4, 5, 6, 7}) {
    ValueCopies feeds(1);
    feeds[0].emplace().tensor = tensor(ElementType::kFloat32, {static_cast<std::int64_t>(x.size() / 4), 4}, x.data());
    return run(model, feeds);
  }
  ValueCopies run(const std::string& model, ValueCopies& feeds) {
    const auto options = own<OrtRunOptions>(library, library.api.ReleaseRunOptions, library.api.CreateRunOptions);
    return PreparedRun(open(model), {}, {kBeside}, {kBeside}).run(options.get(), feeds);
  }
};

TEST_F(ValueCopyTest, NamesTypesByWhatTheyAreMadeOf) {
  const auto nameOfOutput = [&](const std::string& model) { return open(model)->outputs[0].typeName; };
  EXPECT_EQ(nameOfOutput("plus-one"), "float32");
  EXPECT_EQ(nameOfOutput("scores"), "seq(map(int64, float32))");
  EXPECT_EQ(nameOfOutput("names"), "seq(map(string, float32))");
  EXPECT_EQ(nameOfOutput("rows"), "seq(float32)");
  EXPECT_EQ(nameOfOutput("maybe"), "optional(float32)");
  EXPECT_EQ(nameOfOutput("lookup"), "map(int64, float32)");
  EXPECT_EQ(nameOfOutput("sparse"), "a sparse tensor");
  EXPECT_EQ(open("first")->inputs[0].typeName, "seq(float32)");
}

TEST_F(ValueCopyTest, GathersTheMapsOfASequence) {
  const ValueCopies copies = run("scores");
  EXPECT_EQ(copies.at(0)->kind, Kind::kMaps);
  EXPECT_EQ(copies[0]->entries, (std::vector<std::size_t>{4, 4}));
  EXPECT_EQ(elements<std::int64_t>(copies[0]->tensor), (std::vector<std::int64_t>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(elements<float>(copies[0]->values), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(ValueCopyTest, GathersKeysThatAreStrings) {
  EXPECT_EQ(run("names").at(0)->tensor.strings, (std::vector<std::string>{"a", "b", "c", "d", "a", "b", "c", "d"}));
}

TEST_F(ValueCopyTest, CopiesASequenceOfTensorsAndAnEmptyOne) {
  const ValueCopies copies = run("rows");
  EXPECT_EQ(copies.at(0)->kind, Kind::kSequence);
  ASSERT_EQ(copies[0]->items.size(), 2u);
  EXPECT_EQ(elements<float>(copies[0]->items[1].tensor), (std::vector<float>{4, 5, 6, 7}));
  EXPECT_TRUE(run("rows", {}).at(0)->items.empty());
  EXPECT_EQ(run("scores", {}).at(0)->kind, Kind::kSequence);
}

TEST_F(ValueCopyTest, TellsAnOptionalValueThatIsNotThere) {
  const ValueCopies copies = run("maybe");
  EXPECT_EQ(copies.at(0)->kind, Kind::kTensor);
  EXPECT_EQ(elements<float>(copies[0]->tensor).at(7), 7);
  EXPECT_EQ(run("maybe", {-1, 0, 0, 0}).at(0)->kind, Kind::kNothing);
}

TEST_F(ValueCopyTest, GivesSequencesAndMapsToARun) {
  const float row[] = {5, 6, 7, 8};
  const std::int64_t keys[] = {3, 9};
  ValueCopies feeds(1);
  feeds[0].emplace().kind = Kind::kSequence;
  feeds[0]->items.emplace_back().tensor = tensor(ElementType::kFloat32, {1, 4}, row);
  EXPECT_EQ(elements<float>(run("first", feeds).at(0)->tensor), (std::vector<float>{5, 6, 7, 8}));
  feeds[0].emplace().kind = Kind::kMap;
  feeds[0]->tensor = tensor(ElementType::kInt64, {2}, keys);
  feeds[0]->values = tensor(ElementType::kFloat32, {2}, row);
  const ValueCopies map = run("lookup", feeds);
  EXPECT_EQ(map.at(0)->kind, Kind::kMap);
  EXPECT_EQ(elements<std::int64_t>(map[0]->tensor), (std::vector<std::int64_t>{3, 9}));
  EXPECT_EQ(elements<float>(map[0]->values), (std::vector<float>{5, 6}));
}

TEST_F(ValueCopyTest, RefusesWhatIsOfNoneOfTheseKinds) {
  EXPECT_THROW(run("sparse"), OrtError);
  ValueCopies feeds(1);
  feeds[0].emplace().kind = Kind::kNothing;
  EXPECT_THROW(run("first", feeds), OrtError);
  feeds[0].emplace().kind = Kind::kSequence;
  EXPECT_THROW(run("first", feeds), OrtError) << "without any value";
}

// Each entry that takes part fails in turn: what was made before it is released (by FakeOrtTest), and the next run is well.
TEST_F(ValueCopyTest, ReleasesWhatItHasWhereAnEntryFails) {
  constexpr int kGetValueType = 67, kGetValue = 80, kGetValueCount = 81, kCreateValue = 82, kHasValue = 192;
  constexpr int kStringLength = 53, kStringContent = 54, kGetTypeAndShape = 65, kMutableData = 51;
  const auto fails = [&](const std::string& model, const std::vector<int>& places) {
    for (const int place : places) {
      counts.failAt = place;
      EXPECT_THROW(run(model), OrtError) << model << " with entry " << place;
      counts.failAt = -1;
      EXPECT_EQ(counts.values, 0) << model << " with entry " << place;
      EXPECT_NO_THROW(run(model));
    }
  };
  fails("scores", {kHasValue, kGetValueType, kGetValueCount, kGetValue, kGetTypeAndShape, kMutableData});
  fails("names", {kStringLength, kStringContent});
  fails("rows", {kGetValue, kMutableData});
  const float row[] = {5, 6, 7, 8};
  ValueCopies feeds(1);
  feeds[0].emplace().kind = Kind::kSequence;
  feeds[0]->items.emplace_back().tensor = tensor(ElementType::kFloat32, {1, 4}, row);
  counts.failAt = kCreateValue;
  EXPECT_THROW(run("first", feeds), OrtError);
  counts.failAt = -1;
}

TEST_F(ValueCopyTest, OpensNoSessionWhereATypeCannotBeTold) {
  for (const auto& [model, places] : std::vector<std::pair<std::string, std::vector<int>>>{
           {"scores", {103, 104, 105, 106, 107}}, {"maybe", {250, 251}}}) {
    for (const int place : places) {
      counts.failAt = place;
      EXPECT_THROW(open(model), OrtError) << "entry " << place;
      counts.failAt = -1;
    }
  }
}

}  // namespace
}  // namespace zerohop::ort

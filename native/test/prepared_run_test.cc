#include "ort/prepared_run.h"

#include "fake_onnxruntime_test.h"

namespace zerohop::ort {
namespace {

class PreparedRunTest : public FakeOrtTest {
 protected:
  PreparedRunTest() {
    for (int at = 0; at < 4; ++at) slot.x[at] = static_cast<float>(at);
    for (int at = 0; at < 4; ++at) slot.y[at] = 666;  // another caller's
  }

  ValueCopies run(PreparedRun& prepared) { return prepared.run(options.get(), none); }
  ValueCopies run(const std::string& model) { return run(*slot.prepare(open(model))); }
  std::vector<float> answer() const { return {slot.y, slot.y + 4}; }

  TestSlot slot;
  ValueCopies none;
  Owned<OrtRunOptions> options = own<OrtRunOptions>(library, library.api.ReleaseRunOptions, library.api.CreateRunOptions);

  void TearDown() override {
    options.reset();
    FakeOrtTest::TearDown();
  }
};

TEST_F(PreparedRunTest, WritesOutputsToTheirPlaces) {
  EXPECT_TRUE(run("plus-one").empty());
  EXPECT_EQ(answer(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(counts.runs, 1);
}

TEST_F(PreparedRunTest, GivesWhatTheRunGaveWhenItDoesNotWriteToThePlace) {
  const auto prepared = slot.prepare(open("identity"));
  EXPECT_TRUE(run(*prepared).empty());
  EXPECT_EQ(answer(), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(counts.runs, 2) << "run again without the place";
  slot.x[0] = 7;
  EXPECT_TRUE(run(*prepared).empty());
  EXPECT_EQ(answer(), (std::vector<float>{7, 1, 2, 3}));
  EXPECT_EQ(counts.runs, 3) << "and from then on";
}

TEST_F(PreparedRunTest, KnowsAnAliasInEveryLayoutOfTheSession) {
  const auto session = open("identity");
  run(*slot.prepare(session));
  run(*slot.prepare(session));
  EXPECT_EQ(counts.runs, 3);
}

TEST_F(PreparedRunTest, GivesAnOutputOfAnotherSizeBesideTheSlot) {
  const auto prepared = slot.prepare(open("larger"));
  for (int round = 1; round <= 2; ++round) {
    const ValueCopies copies = run(*prepared);
    ASSERT_EQ(copies.size(), 1u);
    EXPECT_EQ(copies[0]->tensor.dims, (std::vector<std::int64_t>{2, 4}));
    EXPECT_EQ(copies[0]->tensor.byteLength, 32u);
    EXPECT_EQ(static_cast<const float*>(copies[0]->tensor.bytes.get())[3], 4);
    EXPECT_EQ(counts.runs, round + 1) << "with the place only once";
  }
}

TEST_F(PreparedRunTest, RefusesAnOutputOfAnotherTypeOrNone) {
  EXPECT_THROW(run("other-type"), OrtError);
  PreparedRun apart(open("nothing"), {slot.bytes, 32}, TestSlot::place(0), {Place{Place::Kind::kApart, 0, {}}});
  EXPECT_THROW(run(apart), OrtError);
}

TEST_F(PreparedRunTest, FailsWithItsOwnWordsAndIsNotRunAgain) {
  try {
    run("failing");
    FAIL();
  } catch (const OrtError& error) {
    EXPECT_STREQ(error.what(), "failed on purpose");
  }
  EXPECT_EQ(counts.runs, 1);
}

TEST_F(PreparedRunTest, RefusesWhatDoesNotLieInTheSlotOrIsNoOutputOfTheModel) {
  const auto session = open("plus-one");
  EXPECT_THROW(PreparedRun(session, {slot.bytes, 31}, TestSlot::place(0), TestSlot::place(16)), OrtError);
  EXPECT_THROW(PreparedRun(session, {slot.bytes, 32}, TestSlot::place(64), {}), OrtError);
  EXPECT_THROW(PreparedRun(session, {slot.bytes, 32}, {Place{}, Place{}}, {}), OrtError);
}

TEST_F(PreparedRunTest, CarriesStringsWithWhateverBytes) {
  const auto session = open("reverse");
  const Place beside{Place::Kind::kApart, 0, {}};
  PreparedRun prepared(session, {}, {beside}, {beside});
  ValueCopies feeds(1);
  feeds[0].emplace();
  feeds[0]->tensor.type = ElementType::kString;
  feeds[0]->tensor.dims = {3};
  feeds[0]->tensor.strings = {"", std::string("a\0b", 3), "\xc3\xa4"};
  const ValueCopies copies = prepared.run(options.get(), feeds);
  EXPECT_EQ(copies.at(0)->tensor.strings, (std::vector<std::string>{"\xc3\xa4", std::string("a\0b", 3), ""}));
}

TEST_F(PreparedRunTest, RefusesARunWhoseInputHasNotCome) {
  const Place beside{Place::Kind::kApart, 0, {}};
  PreparedRun prepared(open("reverse"), {}, {beside}, {beside});
  EXPECT_THROW(run(prepared), OrtError);
}

TEST_F(PreparedRunTest, HoldsItsSlotAndSession) {
  std::weak_ptr<std::byte> bytes = slot.bytes;
  auto prepared = slot.prepare(open("plus-one"));
  slot.bytes.reset();
  EXPECT_TRUE(run(*prepared).empty());
  EXPECT_FALSE(bytes.expired());
  prepared.reset();
  EXPECT_TRUE(bytes.expired());
  slot = TestSlot();
}

}  // namespace
}  // namespace zerohop::ort

// Saving and loading: the bits go on, on this layout and on others, and nothing damaged is taken for sound.
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "checkpoint_runs.h"
#include "harness/train/checkpoint_manifest.h"
#include "harness/train/rank_states.h"
#include "harness/train/safetensors.h"
#include "layout_runs.h"
#include "tests/memory_folder.h"
#include "tests/one_infinity.h"

namespace dettax {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr int kSteps = 2;
constexpr int kMore = 2;

Case laid_out(const Layout& layout, const Model& model = small_llama()) {
  Case planned = on_layout(small_case(model), layout);
  planned.batch = {1, 4, 12};
  return planned;
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void overwrite(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Checkpoint, ALoadedRunGoesOnAsTheOneThatNeverStopped) {
  const std::vector<Layout> layouts = {{},
                                       {.dp = 2, .zero_stage = 1},
                                       {.dp = 2, .zero_stage = 3},
                                       {.tp = 2, .sequence_parallel = true},
                                       {.dp = 2, .pp = 2, .zero_stage = 3}};
  for (const Layout& layout : layouts) {
    const MemoryFolder folder;
    const Case planned = laid_out(layout);
    const SavedRun straight =
        train_and_save(planned, deterministic(), kSteps, kMore, folder.path());
    const auto resumed = resume(planned, deterministic(), straight.checkpoint, kMore);
    EXPECT_EQ(first_difference(straight.after, resumed), "") << to_string(layout);
  }
}

TEST(Checkpoint, ARunThatWasLeftOneStepBehindDiffers) {
  const MemoryFolder folder;
  const Case planned = laid_out({});
  const SavedRun straight = train_and_save(planned, deterministic(), kSteps, 1, folder.path());
  const SavedRun behind = train_and_save(planned, deterministic(), kSteps - 1, 1, folder.path());
  EXPECT_NE(
      first_difference(straight.after, resume(planned, deterministic(), behind.checkpoint, 1)), "");
}

// Of whole tensors, whatever the layout.
Log state_after(const std::vector<Log>& logs) {
  Log state = logs.front();
  std::erase_if(state, [](const Entry& e) { return e.path != "state"; });
  return state;
}

struct Relayout {
  Layout from, to;
};

void expect_same_state(const Relayout& change, const Model& model) {
  const MemoryFolder folder;
  const SavedRun saved =
      train_and_save(laid_out(change.from, model), deterministic(), kSteps, 0, folder.path());
  const auto loaded = resume(laid_out(change.to, model), deterministic(), saved.checkpoint, 0);
  for (const Log& rank : loaded)
    EXPECT_EQ(first_difference(state_after(saved.after), state_after({rank})), "")
        << to_string(change.from) << " -> " << to_string(change.to);
}

TEST(Checkpoint, IsTheSameStateOnAnotherLayout) {
  const Layout all{.dp = 2, .tp = 2, .pp = 2, .sequence_parallel = true, .zero_stage = 1};
  const std::vector<Relayout> changes = {{{.tp = 2}, {}},
                                         {{.dp = 4}, {.dp = 2}},
                                         {{.dp = 2, .zero_stage = 1}, {.dp = 2}},
                                         {{.dp = 2, .zero_stage = 3}, {}},
                                         {{.pp = 2}, {}},
                                         {{}, all},
                                         {all, {.dp = 2, .zero_stage = 3}}};
  for (const Relayout& change : changes) expect_same_state(change, small_llama());
  expect_same_state({{.pp = 2}, {.dp = 2, .tp = 2, .zero_stage = 1}}, small_gpt());  // a tied table
}

TEST(Checkpoint, SpreadsExpertsAnew) {
  const std::vector<Relayout> changes = {
      {{.dp = 2, .ep = 2}, {}},
      {{}, {.dp = 4, .ep = 2, .zero_stage = 3}},
      {{.dp = 2, .tp = 2, .ep = 2, .sequence_parallel = true}, {.pp = 2}}};
  for (const Relayout& change : changes) expect_same_state(change, small_moe());
}

TEST(Checkpoint, HasEachPartOnceAndReplicasByReference) {
  const MemoryFolder folder;
  const SavedRun saved =
      train_and_save(laid_out({.dp = 2, .tp = 2}), deterministic(), 1, 0, folder.path());
  const CheckpointManifest manifest = read_manifest(saved.checkpoint);
  const SavedTensor* cut = manifest.find("layer0.attention.qkv.weight");
  ASSERT_EQ(cut->parts.size(), 2U);
  EXPECT_EQ(cut->parts[1].holders, (std::vector{1, 3}));
  EXPECT_EQ(manifest.find("layer0.norm1.weight")->parts.front().holders, (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(manifest.find("data.step")->parts.front().value, "1");
  EXPECT_EQ(manifest.files.size(), 2U);  // the second replica has nothing of its own
}

// Sums in order of arrival: replicas may come to differ. Here one does for sure.
TEST(Checkpoint, KeepsCopiesThatDifferAndLoadsThemOnTheirLayoutAlone) {
  const MemoryFolder folder;
  const Case planned = laid_out({.dp = 2});
  const SavedRun saved =
      train_and_save(planned, deterministic(), 1, 0, folder.path(), [](RankRun& rank) {
        if (rank.communicator.rank() == 1) rank.train.parameters().front().value.f32()[3] += 1;
      });
  EXPECT_TRUE(read_manifest(saved.checkpoint).find("embedding.weight")->copies_differ());
  EXPECT_EQ(first_difference(saved.after, resume(planned, deterministic(), saved.checkpoint, 0)),
            "");
  EXPECT_THAT(message_of([&] { resume(laid_out({}), deterministic(), saved.checkpoint, 0); }),
              AllOf(HasSubstr("embedding.weight"), HasSubstr("copies of it that differ")));
}

TEST(Checkpoint, IsTakenWhenItIsScheduledNotWhenItIsWritten) {
  const MemoryFolder folder;
  train_on_ranks(laid_out({}), deterministic(), [&](RankRun& rank) {
    rank.train.reset(1);
    rank.train.step();
    const std::vector<StateEntry> then = describe_state(rank.train);
    CheckpointSaver saver({folder.path()}, rank.communicator);
    saver.schedule(rank.train);
    rank.train.step();
    EXPECT_NE(then, describe_state(rank.train));
    load_checkpoint(saver.finish(), rank.train);
    EXPECT_EQ(then, describe_state(rank.train));
  });
}

TEST(Checkpoint, KeepsTheLastAndNamesAStepThatIsSavedAgain) {
  const MemoryFolder folder;
  std::vector<std::string> names;
  train_on_ranks(laid_out({}), deterministic(), [&](RankRun& rank) {
    rank.train.reset(1);
    CheckpointSaver saver({folder.path(), 2}, rank.communicator);
    for (const int step : {1, 2, 2, 3}) {
      if (rank.train.steps_done() < step) rank.train.step();
      saver.schedule(rank.train);
      names.push_back(saver.finish().filename());
    }
  });
  EXPECT_THAT(names, testing::ElementsAre("step_00000001", "step_00000002", "step_00000002.1",
                                          "step_00000003"));
  const auto places = list_checkpoints(folder.path());
  ASSERT_EQ(places.size(), 2U);
  EXPECT_EQ(places[0].path.filename(), "step_00000002.1");
  EXPECT_EQ(nearest_checkpoint(folder.path())->step, 3);
  EXPECT_EQ(nearest_checkpoint(folder.path(), 2)->step, 2);
  EXPECT_FALSE(nearest_checkpoint(folder.path(), 1));
}

std::map<std::string, bool> items_that_differ(const std::vector<StateEntry>& saved,
                                              const std::vector<StateEntry>& loaded) {
  std::map<std::string, bool> differ;
  for (size_t i = 0; i < saved.size(); ++i) differ[saved[i].item] |= saved[i] != loaded[i];
  return differ;
}

// Every item that a precision has, left out alone: what is loaded differs in it, and nothing else does before the next step.
void expect_each_item_missed(Precision precision, size_t items) {
  const MemoryFolder folder;
  Case planned = laid_out({});
  planned.precision = precision;
  planned.batch = {4, 4, 12};
  const SavedRun saved =
      train_and_save(planned, deterministic(), 3, 1, folder.path(), [](RankRun& rank) {
        static thread_local OneInfinity infinity;  // the loss scale halves
        if (rank.train.planned().precision == Precision::fp16) rank.train.inject(&infinity);
      });
  train_on_ranks(planned, deterministic(), [&](RankRun& rank) {
    load_checkpoint(saved.checkpoint, rank.train);
    const std::vector<StateEntry> whole = describe_state(rank.train);
    std::set<std::string> names;
    for (const StateEntry& entry : whole) names.insert(entry.item);
    EXPECT_EQ(names.size(), items);
    EXPECT_EQ(first_difference(saved.after.front(), train_on(rank, 1)), "");
    for (const std::string& item : names) {
      load_checkpoint(saved.checkpoint, rank.train, {{item}});
      for (const auto& [name, differs] : items_that_differ(whole, describe_state(rank.train)))
        EXPECT_EQ(differs, name == item) << name << " without " << item;
      // Adam's step is in no ledger of this precision, but in the weights that follow.
      EXPECT_NE(first_difference(saved.after.front(), train_on(rank, 1)), "") << item;
    }
  });
}

TEST(Checkpoint, MissesEachItemThatIsLeftOut) {
  expect_each_item_missed(Precision::fp32, 6);
  expect_each_item_missed(Precision::fp16, 8);
  expect_each_item_missed(Precision::fp8_ds, 8);
}

// cases/layout.md, layout-01, and other models.
TEST(Checkpoint, OfAnotherModelIsRefusedByShapeOrItem) {
  const MemoryFolder folder;
  const SavedRun saved = train_and_save(laid_out({}), deterministic(), 1, 0, folder.path());
  Case other = laid_out({});
  other.model.vocabulary = 97;
  other.model.vocabulary_multiple = 1;
  EXPECT_THAT(message_of([&] { resume(other, deterministic(), saved.checkpoint, 0); }),
              AllOf(HasSubstr("embedding.weight"), HasSubstr("128 x 32 saved against 97 x 32"),
                    HasSubstr("models are not the same")));
  other = laid_out({});
  other.precision = Precision::fp16;
  EXPECT_THAT(message_of([&] { resume(other, deterministic(), saved.checkpoint, 0); }),
              HasSubstr("loss_scale"));
}

// cases/restart.md, restart-03.
TEST(Case, Restart03ASaveThatIsTheOneBeforeFailsWhenItIsSaved) {
  train_on_ranks(laid_out({}), deterministic(), [&](RankRun& rank) {
    rank.train.reset(1);
    std::vector<StateEntry> before = describe_state(rank.train);
    StagedState first;
    for (const StateTensor& tensor : rank.train.state()) {
      if (tensor.on_device) first.take(tensor, describe_state(tensor, rank.device), rank.device);
    }
    const SavedBefore saved = first.fingerprints(20);
    StagedState frozen;  // no step: equal, and rightly so
    StagedState
        stale;  // the copy is step 20's, the fingerprint is that of the live weights of step 30
    const StateTensor weights = rank.train.state().front();
    frozen.take(weights, describe_state(weights, rank.device), rank.device);
    frozen.check(30, saved);
    StateEntry live = describe_state(weights, rank.device);
    live.fingerprint.lane0 += 1;
    stale.take(weights, live, rank.device);
    EXPECT_THAT(
        message_of([&] { stale.check(30, saved); }),
        HasSubstr("step 30's embedding.weight hash equals step 20's, the live one differs"));
  });
}

// cases/nan.md, nan-03.
TEST(Case, Nan03DamageIsNamedAtLoadWithItsShard) {
  const MemoryFolder folder;
  const SavedRun saved = train_and_save(laid_out({.tp = 2}), deterministic(), 1, 0, folder.path());
  const fs::path shard = saved.checkpoint / saved_file_name(1);
  EXPECT_NO_THROW(verify_checkpoint(saved.checkpoint));
  std::string bytes = bytes_of(shard);
  for (size_t i = 0; i < 64; ++i) bytes[bytes.size() - 100 - i] ^= 0x10;
  overwrite(shard, bytes);
  EXPECT_THAT(
      message_of([&] { resume(laid_out({.tp = 2}), deterministic(), saved.checkpoint, 0); }),
      AllOf(HasSubstr("rank_00001.safetensors"), HasSubstr("tensor "), HasSubstr("is damaged")));
  EXPECT_THAT(message_of([&] { verify_checkpoint(saved.checkpoint); }),
              AllOf(HasSubstr("rank_00001.safetensors"), HasSubstr("is damaged")));
}

// To open a pipe waits for who writes it.
TEST(Checkpoint, APipeInPlaceOfAFileIsRefusedAtOnce) {
  const MemoryFolder folder;
  const SavedRun saved = train_and_save(laid_out({}), deterministic(), 1, 0, folder.path());
  const auto refusal = [&](const fs::path& file) {
    fs::rename(file, folder.path() / "aside");
    EXPECT_EQ(::mkfifo(file.c_str(), 0600), 0);
    EXPECT_TRUE(list_checkpoints(folder.path()).empty());
    const std::string message = message_of([&] { verify_checkpoint(saved.checkpoint); });
    fs::remove(file);
    fs::rename(folder.path() / "aside", file);
    return message;
  };
  EXPECT_THAT(refusal(saved.checkpoint / kManifestName), HasSubstr("no readable manifest.json"));
  EXPECT_THAT(refusal(saved.checkpoint / saved_file_name(0)),
              HasSubstr("rank_00000.safetensors: cannot be read"));
  EXPECT_EQ(message_of([&] { verify_checkpoint(saved.checkpoint); }), "");
}

// Whatever is done to a file: the bits that were saved, or a refusal.
TEST(Checkpoint, IsNeverLoadedWrongHoweverItIsDamaged) {
  const MemoryFolder folder;
  const Case planned = laid_out({});
  const SavedRun saved = train_and_save(planned, deterministic(), 1, 0, folder.path());
  std::mt19937 random(7);
  int refused = 0;
  const auto attack = [&](RankRun& rank, const fs::path& path, size_t within) {
    const std::string whole = bytes_of(path);
    for (int i = 0; i < 150; ++i) {
      std::string bytes = whole;
      const size_t at = random() % std::min(within, bytes.size());
      if (i % 3 == 0) {
        bytes.resize(at);
      } else {
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      }
      overwrite(path, bytes);
      if (!message_of([&] { load_checkpoint(saved.checkpoint, rank.train); }).empty()) {
        ++refused;
      } else {
        EXPECT_EQ(first_difference(saved.after, {train_on(rank, 0)}), "") << path << " byte " << at;
      }
    }
    overwrite(path, whole);
  };
  train_on_ranks(planned, deterministic(), [&](RankRun& rank) {
    attack(rank, saved.checkpoint / saved_file_name(0), 2000);  // header, mostly
    attack(rank, saved.checkpoint / saved_file_name(0), 1U << 30U);
    attack(rank, saved.checkpoint / kManifestName, 1U << 30U);
    load_checkpoint(saved.checkpoint, rank.train);
  });
  EXPECT_GT(refused, 400);
}

TEST(SafeTensors, AHeaderThatDoesNotFitIsRefusedWithItsTensor) {
  const MemoryFolder folder;
  const fs::path path = folder.path() / "a.safetensors";
  const auto message = [&](const std::string& header, size_t data) {
    const uint64_t length = header.size();
    std::string bytes(sizeof length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    overwrite(path, bytes + header + std::string(data, 'x'));
    return message_of([&] { const SafeTensorFile file(path); });
  };
  const std::string good =
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"I64","shape":[],"data_offsets":[8,16]}})";
  EXPECT_EQ(message(good, 16), "");
  EXPECT_THAT(message(good, 15), HasSubstr("its tensors have 16 bytes, the file 15"));
  EXPECT_THAT(message(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
              HasSubstr("tensor a: begins at byte 4"));
  EXPECT_THAT(message(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
              HasSubstr("tensor a: its shape and its data_offsets"));
  EXPECT_THAT(message(R"({"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}})", 8),
              HasSubstr("tensor a: dtype \"BF16\""));
  EXPECT_THAT(message(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
              HasSubstr("tensor a"));
  EXPECT_THAT(
      message(R"({"a":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,0]}})", 0),
      HasSubstr("tensor a"));
  EXPECT_THAT(
      message(
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
          8),
      HasSubstr("\"a\" twice"));
  EXPECT_THAT(message(R"({"a":1})", 0), HasSubstr("tensor a"));
  EXPECT_THAT(message("[]", 0), HasSubstr("no JSON object"));
  overwrite(path, "abc");
  EXPECT_THAT(message_of([&] { const SafeTensorFile file(path); }),
              HasSubstr("shorter than a header's length"));
  overwrite(path, std::string("\xff\xff\xff\xff\0\0\0\0{}", 10));
  EXPECT_THAT(message_of([&] { const SafeTensorFile file(path); }),
              HasSubstr("there is room for 2"));
}

}  // namespace
}  // namespace dettax

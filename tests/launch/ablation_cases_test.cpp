// cases/overhead.md, overhead-04: which of three knobs is needed, and what each costs. The processes are made up: what a step takes, and
// whether it repeats its bits, follows from the knobs it runs with.
#include <fstream>
#include <set>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/evidence/ledger.h"
#include "harness/launch/case_profile.h"
#include "harness/launch/trace_files.h"
#include "profiles/export/chrome_export.h"
#include "tests/launch/support.h"

namespace dettax {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TemporaryFolder;
using testing::tiny_suite;

constexpr int64_t kUs = 1'000;
constexpr int kRanks = 2;

// What a step does, op by op, and the longer way of each where its knob is set.
struct MadeOp {
  const char* path;
  Category category;
  int64_t fast_ns, added_ns;
};
bool is_set(const Mode& mode, const MadeOp& op) {
  const std::string_view path = op.path;
  if (path == "backward/layer1/attention") return mode.knobs.attention == Order::ordered;
  if (path == "forward/layer0/mlp_up") return !mode.environment.empty();
  return mode.knobs.collectives == Order::ordered;
}
constexpr MadeOp kOps[] = {
    {"forward/layer0/mlp_up", Category::compute, 4'000 * kUs, 500 * kUs},
    {"backward/layer1/attention", Category::compute, 5'000 * kUs, 2'000 * kUs},
    {"reduce/bucket", Category::communication, 1'000 * kUs, 1'000 * kUs}};

class MadeGroup : public ArmGroup {
 public:
  // `racy`: the ops whose bits another order changes.
  MadeGroup(ArmSpec spec, const std::set<std::string>& racy, uint64_t& draws)
      : spec_(std::move(spec)), racy_(racy), draws_(draws), traces_(kRanks) {
    for (int rank = 0; rank < kRanks; ++rank) {
      Trace& trace = traces_[static_cast<size_t>(rank)];
      trace.kind = TraceKind::host;
      trace.rank = rank;
      trace.world_size = kRanks;
      trace.streams.push_back({"rank", "rank", false, 0, 0});
    }
  }
  const ArmSpec& spec() const override { return spec_; }
  const std::map<std::string, std::string>& engaged() const override { return engaged_; }
  int64_t memory_peak_bytes() const override { return 0; }
  int64_t process_id() const override { return 0; }
  void weaken(Knob) override {}

  StepsRun run_steps(int steps) override {
    int64_t step_ns = 0;
    for (const MadeOp& op : kOps) step_ns += time_ns(op);
    const std::vector<double> times(static_cast<size_t>(steps),
                                    1e-9 * static_cast<double>(step_ns));
    return {{times, times}, {}, {}};
  }

  StepsRun profile_steps(int steps) override {
    for (Trace& trace : traces_) {
      for (int i = 0; i < steps; ++i) record_step(trace);
    }
    return run_steps(steps);
  }

  void take_traces(const std::filesystem::path& folder) override {
    std::vector<std::string> texts;
    for (const Trace& trace : traces_) {
      std::ostringstream text;
      write_chrome_trace(text, trace);
      texts.push_back(text.str());
    }
    write_traces(texts, folder);
  }

  void write_ledger(uint64_t seed, int steps, const std::filesystem::path& path, uint64_t,
                    LedgerDepth) override {
    Ledger ledger;
    ledger.case_id = spec_.planned.id();
    ledger.mode = spec_.mode.name;
    ledger.seed = static_cast<int64_t>(seed);
    ledger.steps = steps;
    ledger.ranks.resize(kRanks);
    for (auto& entries : ledger.ranks) {
      for (const MadeOp& op : kOps) {
        const bool races = racy_.contains(op.path) && !is_set(spec_.mode, op);
        const uint64_t value = races ? ++draws_ : 0;
        entries.push_back({0, op.path, "y", fingerprint(&value, 1, sizeof value)});
      }
    }
    std::ofstream file(path);
    dettax::write_ledger(file, ledger);
  }

 private:
  int64_t time_ns(const MadeOp& op) const {
    return op.fast_ns + (is_set(spec_.mode, op) ? op.added_ns : 0);
  }
  void record_step(Trace& trace) {
    const int64_t begin = trace.steps.empty() ? 0 : trace.steps.back().end_ns;
    int64_t at = begin;
    for (const MadeOp& op : kOps) {
      Span span{.start_ns = at, .end_ns = at + time_ns(op)};
      span.name = trace.names.intern("op");
      span.path = trace.paths.intern(op.path);
      span.category = op.category;
      trace.spans.push_back(span);
      at = span.end_ns;
    }
    trace.steps.push_back({std::ssize(trace.steps), begin, at});
  }

  ArmSpec spec_;
  const std::set<std::string>& racy_;
  uint64_t& draws_;
  std::vector<Trace> traces_;
  std::map<std::string, std::string> engaged_;
};

class MadeLauncher : public Launcher {
 public:
  explicit MadeLauncher(std::set<std::string> racy) : racy_(std::move(racy)) {}
  std::unique_ptr<ArmGroup> start(const ArmSpec& spec, const std::string&) override {
    return std::make_unique<MadeGroup>(spec, racy_, draws_);
  }

 private:
  std::set<std::string> racy_;
  uint64_t draws_ = 0;
};

class Overhead04 : public ::testing::Test {
 protected:
  Overhead04() : mode_(suite_.fast) {
    mode_.name = "deterministic";
    mode_.knobs.attention = mode_.knobs.collectives = Order::ordered;
    mode_.environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8";
    suite_.profile.budget_seconds = 0.1;
  }
  Ablation ablate(const std::set<std::string>& racy,
                  const std::vector<KnobControl>& controls = {}) {
    MadeLauncher launcher(racy);
    return run_ablation(launcher, mode_, controls,
                        {suite_.cases.at(0), suite_, folder_.path(), 0.01, [](const auto&) {}});
  }

  TemporaryFolder folder_;
  Suite suite_ = tiny_suite(folder_.path(), "  - {}\n");
  Mode mode_;
};

TEST_F(Overhead04, TheNecessaryKnobIsFoundAndAllArePriced) {
  const Ablation ablation = ablate({"backward/layer1/attention"});
  ASSERT_EQ(ablation.refusal, "");
  std::map<std::string, double> prices;
  for (const KnobCost& cost : ablation.knobs) prices[cost.knob] = total_seconds(cost);
  ASSERT_THAT(prices, SizeIs(3));
  EXPECT_NEAR(prices.at("attention"), 2e-3, 1e-9);
  EXPECT_NEAR(prices.at("environment"), 5e-4, 1e-9);
  EXPECT_NEAR(prices.at("collectives"), 1e-3, 1e-9);
  EXPECT_NEAR(total_seconds(ablation.total), 3.5e-3, 1e-9);
  EXPECT_TRUE(ablation.sufficient.reproducible);
  EXPECT_THAT(ablation.sufficient.knobs, ElementsAre("attention"));
  ASSERT_TRUE(ablation.sufficient.overhead_ratio);
  EXPECT_NEAR(ablation.sufficient.overhead_ratio->value, 1.2, 1e-6);
}

TEST_F(Overhead04, AKnobIsNotCalledEnoughWhereAnotherIsNeeded) {
  EXPECT_THAT(ablate({"reduce/bucket"}).sufficient.knobs, ElementsAre("collectives"));
  EXPECT_THAT(ablate({"reduce/bucket", "backward/layer1/attention"}).sufficient.knobs,
              ::testing::UnorderedElementsAre("attention", "collectives"));
  EXPECT_THAT(ablate({}).sufficient.knobs, IsEmpty());
}

TEST_F(Overhead04, NoSetIsClaimedWhereNoKnobActs) {
  // The workspace has no place of its own in a step.
  const SufficientSet set = ablate({"forward/layer0/mlp_up"}).sufficient;
  EXPECT_FALSE(set.reproducible);
  EXPECT_THAT(set.reason, HasSubstr("runs differ at forward/layer0/mlp_up"));
}

TEST_F(Overhead04, AKnobWhoseControlWasCaughtIsInTheSetFromTheStart) {
  KnobControl caught;
  caught.knob = "collectives";
  caught.status = ControlStatus::caught;
  EXPECT_THAT(ablate({"reduce/bucket"}, {caught}).sufficient.knobs, ElementsAre("collectives"));
}

}  // namespace
}  // namespace dettax

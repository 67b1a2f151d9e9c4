#include "harness/launch/ledgers.h"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace dettax {
namespace {

// One thread, and a number that divides no power of two.
constexpr int kThreadCounts[] = {1, 3};

void add_rank_variant(std::vector<Variant>& out, const Case& planned, int dp, int64_t micro) {
  if (dp < 1 || micro < 1 || planned.batch.global % (micro * dp) != 0) return;
  Variant variant{planned, fmt::format("dp {}, micro-batch {}", dp, micro)};
  variant.planned.layout.dp = dp;
  variant.planned.batch.micro = micro;
  Topology& topology = variant.planned.topology;
  const int ranks = variant.planned.layout.ranks();
  if (ranks % topology.nodes != 0) topology.nodes = 1;
  if (topology.nodes == 1) topology.inter_node = {};
  topology.ranks_per_node = ranks / topology.nodes;
  if (layout_refusal(variant.planned)) return;
  out.push_back(std::move(variant));
}

}  // namespace

std::string ledger_run_name(const std::string& label) {
  std::string name = label;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ' ' || c == ',' || c == '/'; }, '_');
  return name;
}

std::vector<Variant> thread_variants(const Case& planned) {
  std::vector<Variant> out;
  // Threads of the host take no part in what a device computes: equal bits would prove nothing.
  if (planned.backend != Backend::cpu) return out;
  for (const int threads : kThreadCounts) {
    if (threads == planned.topology.threads_per_rank) continue;
    Variant variant{planned, fmt::format("threads {}", threads)};
    variant.planned.topology.threads_per_rank = threads;
    out.push_back(std::move(variant));
  }
  return out;
}

std::vector<Variant> rank_variants(const Case& planned) {
  std::vector<Variant> out;
  const int dp = planned.layout.dp;
  const int64_t micro = planned.batch.micro;
  if (micro % 2 == 0) add_rank_variant(out, planned, dp, micro / 2);
  const size_t before = out.size();
  // Doubled where the batch allows, with smaller micro-batches if need be; else halved.
  add_rank_variant(out, planned, 2 * dp, micro);
  if (out.size() == before && micro % 2 == 0) add_rank_variant(out, planned, 2 * dp, micro / 2);
  if (out.size() == before && dp % 2 == 0) add_rank_variant(out, planned, dp / 2, micro);
  return out;
}

int ledger_runs(const Case& planned, const Suite& suite) {
  const EvidenceSettings& evidence = suite.evidence;
  const int plain = evidence.runs + (evidence.relaunch ? 1 : 0);
  int count = 2 * plain;  // fast and control
  for (const Mode& mode : suite.modes) {
    count += plain;
    if (evidence.other_allocation && mode.claims_reproducible) ++count;
    if (!mode.claims_invariant) continue;
    if (evidence.other_threads) count += static_cast<int>(thread_variants(planned).size());
    if (evidence.other_ranks) count += static_cast<int>(rank_variants(planned).size());
  }
  return count;
}

LedgerFolders ledger_folders(const std::filesystem::path& run_folder, const std::string& case_id) {
  return {run_folder / "ledgers" / case_id, run_folder / "checkpoints" / case_id};
}

std::filesystem::path checkpoint_folder(const LedgerFolders& folders, const std::string& arm) {
  return folders.checkpoints / ledger_run_name(arm);
}

LedgerRuns::LedgerRuns(const EvidenceSettings& settings, Launcher& launcher, LedgerFolders folders,
                       std::function<void(const std::string&)> on_run)
    : settings_(settings),
      launcher_(launcher),
      folders_(std::move(folders)),
      on_run_(std::move(on_run)) {}

// What an earlier attempt at the case left there would only be in the way.
CheckpointUse LedgerRuns::saved_by(const ArmSpec& spec) const {
  CheckpointUse use;
  if (settings_.checkpoints() == 0 || !spec.mode.claims_reproducible) return use;
  const std::filesystem::path folder =
      std::filesystem::absolute(checkpoint_folder(folders_, spec.arm));
  std::error_code ignored;  // whoever saves there says what is wrong with it
  std::filesystem::remove_all(folder, ignored);
  use.save_into = folder.string();
  use.save_every = settings_.checkpoint_every;
  return use;
}

void LedgerRuns::write(ArmGroup& group, const std::string& scope, const std::string& label,
                       uint64_t stress, bool saves) {
  const std::string& arm = group.spec().arm;
  on_run_(fmt::format("{}, {}", arm, label));
  const std::filesystem::path path =
      folders_.ledgers / (ledger_run_name(arm + "." + label) + ".ledger");
  const CheckpointUse use = saves ? saved_by(group.spec()) : CheckpointUse{};
  const uint64_t seed = group.spec().planned.seed;
  if (use.save_into.empty()) {
    group.write_ledger(seed, settings_.steps, path, stress, settings_.depth);
  } else {
    const CheckpointsUsed used = group.write_ledger_with(
        {seed, settings_.steps, path.string(), stress, settings_.depth, use});
    if (!used.not_saved.empty()) not_saved_.push_back(fmt::format("{}: {}", arm, used.not_saved));
  }
  files_.push_back({arm, scope, path, group.spec().mode.knobs});
}

void LedgerRuns::in_process(ArmGroup& group, int runs) {
  seats_[group.spec().arm] = group.seats();
  for (int run = 1; run <= runs; ++run) {
    const uint64_t stress = run == 1 ? 0 : next_stress_++;
    write(group, "same_process", fmt::format("run {}", run), stress, run == 1);
  }
}

void LedgerRuns::in_fresh_group(const ArmSpec& spec, const std::string& scope,
                                const std::string& label) {
  on_run_(fmt::format("{}, {}: starting", spec.arm, label));
  const auto group = launcher_.start(spec, ledger_run_name(spec.arm + "." + label));
  write(*group, scope, label, next_stress_++);
}

// Without a ledger where the launcher put everything in the same place: one core on one node.
void LedgerRuns::elsewhere(const ArmSpec& spec) {
  ArmSpec other = spec;
  other.placement = RankPlacement::swapped;
  on_run_(fmt::format("{}, {}: starting", spec.arm, kOtherAllocation));
  const auto group = launcher_.start(other, ledger_run_name(spec.arm + "." + kOtherAllocation));
  if (group->seats() != seats_[spec.arm])
    write(*group, kOtherAllocation, kOtherAllocation, next_stress_++);
}

void LedgerRuns::relaunched(const ArmSpec& spec) {
  if (settings_.relaunch) in_fresh_group(spec, "relaunch", "relaunch");
  if (settings_.other_allocation && spec.mode.claims_reproducible) elsewhere(spec);
  if (!spec.mode.claims_invariant) return;
  const auto run_all = [&](const std::vector<Variant>& variants, const char* scope) {
    for (const Variant& variant : variants) {
      ArmSpec other = spec;
      other.planned = variant.planned;
      in_fresh_group(other, scope, variant.label);
    }
  };
  if (settings_.other_threads) run_all(thread_variants(spec.planned), "other_threads");
  if (settings_.other_ranks) run_all(rank_variants(spec.planned), "other_ranks");
}

std::vector<ArmLedgers> read_ledgers(const std::vector<LedgerFile>& files,
                                     const std::filesystem::path& folder) {
  std::vector<ArmLedgers> arms;
  for (const LedgerFile& file : files) {
    auto arm = std::find_if(arms.begin(), arms.end(),
                            [&](const ArmLedgers& known) { return known.arm == file.arm; });
    if (arm == arms.end()) {
      arms.push_back(
          {file.arm, {}, std::filesystem::relative(file.path, folder).string(), file.knobs});
      arm = arms.end() - 1;
    }
    auto scope = std::find_if(arm->scopes.begin(), arm->scopes.end(),
                              [&](const ScopeLedgers& known) { return known.scope == file.scope; });
    if (scope == arm->scopes.end()) {
      arm->scopes.push_back({file.scope, {}});
      scope = arm->scopes.end() - 1;
    }
    std::ifstream in(file.path, std::ios::binary);
    scope->runs.push_back(read_ledger(in, file.path.string()));
  }
  return arms;
}

}  // namespace dettax

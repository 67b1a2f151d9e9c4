// `dettax accept`: a run, rules and a verdict; or the verdict on runs that lie there.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/format.h"
#include "harness/base/text.h"
#include "harness/cli/acceptance_text.h"
#include "harness/cli/case_kernels.h"
#include "harness/cli/command.h"
#include "harness/cli/export_options.h"
#include "harness/cli/plan_text.h"
#include "harness/cli/run_inputs.h"
#include "harness/cli/suite_measurement.h"
#include "harness/cli/terminal.h"
#include "harness/launch/guards.h"
#include "harness/launch/launch_command.h"
#include "harness/launch/machine.h"
#include "harness/launch/memory.h"
#include "harness/launch/process.h"
#include "harness/launch/rank_pool.h"
#include "results/analysis/acceptance/cells.h"
#include "results/analysis/acceptance/idle.h"

namespace dettax {
namespace {

constexpr const char* kSuite = "acceptance";
constexpr double kDrainSeconds = 30;
// Formats that hold verdicts for people and CI; in the others a node would look like a case.
constexpr const char* kWithNodes[] = {"junit", "html", "markdown"};

struct NodeFile {
  const char* format;
  const char* name;
};
// What a run leaves in its folder unasked.
constexpr NodeFile kFiles[] = {
    {"junit", "acceptance.xml"}, {"html", "acceptance.html"}, {"markdown", "acceptance.md"}};

struct AcceptOptions {
  std::string rules = "default", baseline, verdict_file;
  std::vector<std::string> settings, judged, collectives;
  std::optional<double> devices;
  bool force = false, drain = false;
};

double busy_share(const MachineSample& before, const MachineSample& after) {
  const double seconds = after.time_seconds - before.time_seconds;
  return (after.busy_core_seconds - before.busy_core_seconds) / (seconds * after.cores);
}

// Waits until the machine has settled; what is to be said of it, and whether it never did.
struct IdleStage {
  std::string note, not_idle;
};
IdleStage wait_until_idle(const AcceptanceRules& rules) {
  if (rules.idle_timeout_seconds <= 0) return {"idle check left out", ""};
  IdleWait wait(rules);
  const MachineSample first = sample_machine();
  MachineSample before = first;
  while (true) {
    std::this_thread::sleep_for(std::chrono::duration<double>(rules.idle_interval_seconds));
    const MachineSample after = sample_machine();
    const double busy = busy_share(before, after);
    const double elapsed = after.time_seconds - first.time_seconds;
    before = after;
    const IdleWait::Answer answer = wait.take(busy, elapsed);
    if (answer == IdleWait::Answer::settled)
      return {fmt::format("idle check: settled after {}", format_seconds(elapsed)), ""};
    if (answer == IdleWait::Answer::gave_up)
      return {"idle check: never settled",
              fmt::format("other processes used {} of the cores after {}, limit {}",
                          format_percent(busy), format_seconds(elapsed),
                          format_percent(rules.idle_busy_ratio))};
  }
}

void require_devices(int64_t expected) {
  const int found = visible_devices();
  if (found >= expected) return;
  throw Error(ErrorKind::infrastructure,
              fmt::format("expected {} devices on node {}, found {}; nothing was started", expected,
                          node_name(), found));
}

// Cases that can run here and of which the run has no record yet.
std::vector<std::string> cases_to_measure(const RunOptions& options, const Suite& suite) {
  std::optional<RunFolder> resumed;
  if (!options.resume.empty()) resumed = folder_to_measure(options, suite);
  const int64_t available_bytes = available_memory_bytes();
  std::vector<std::string> names;
  for (const Case& one : suite.cases) {
    if (case_refusal(one, suite, available_bytes)) continue;
    const auto record = resumed ? resumed->record(one.id()) : std::nullopt;
    if (!record || !finished(*record)) names.push_back(one.id());
  }
  return names;
}

std::vector<Record> with_nodes(const std::vector<Record>& records, const Acceptance& acceptance) {
  std::vector<Record> all = acceptance_records(acceptance);
  all.insert(all.end(), records.begin(), records.end());
  return all;
}

bool has_nodes(const std::string& format) {
  for (const char* one : kWithNodes) {
    if (format == one) return true;
  }
  return false;
}

void drain(const Acceptance& acceptance, const Streams& streams) {
  for (const NodeVerdict& node : acceptance.nodes) {
    const std::vector<std::string> command = drain_command(node);
    if (command.empty()) continue;
    ProcessSpec spec;
    spec.program = find_on_path(command.front(), process_variables());
    if (spec.program.empty())
      throw Error(ErrorKind::infrastructure, "--drain: there is no scontrol on the PATH");
    spec.arguments.assign(command.begin() + 1, command.end());
    spec.output = "/dev/null";
    Process process = Process::start(spec);
    const std::optional<int> status = process.wait(kDrainSeconds);
    if (!status || *status != 0)
      throw Error(ErrorKind::infrastructure,
                  fmt::format("--drain: \"{}\" {}", join(command, " "),
                              status ? describe_exit(*status) : "did not end"));
    streams.err << "dettax: drained " << node.node << '\n';
  }
}

class AcceptCommand : public Command {
 public:
  const char* name() const override { return "accept"; }
  const char* what() const override {
    return "runs a suite and says whether node or cluster can be handed over; or judges runs";
  }
  void declare(Options& options) override {
    declare_run_options(options, run_);
    options.lists("--judge", "RUN", accept_.judged,
                  "judges these runs, of one node or of many, and runs nothing");
    options.text("--rules", "NAME", accept_.rules,
                 "rules: a name of configs/acceptance, or a file with what differs from default");
    options.texts("--rule", "KEY=VALUE", accept_.settings,
                  "lays a value over the rules, e.g. fleet.slow_ratio=1.03; may be repeated");
    options.text("--baseline", "FILE", accept_.baseline, "also judges against this baseline");
    options.flag("--force", accept_.force, "against it although machine or settings differ");
    options.texts("--collectives", "FILE", accept_.collectives,
                  "a table of nccl-tests to judge as well; may be repeated");
    options.number("--expect-devices", accept_.devices,
                   "devices that this node must show before anything is started", "8");
    options.text("--verdict", "FILE", accept_.verdict_file, "writes the verdict as JSON");
    options.flag("--drain", accept_.drain, "runs the drain commands instead of printing them only");
  }
  ExitCode run(const Streams& streams) override;

 private:
  AcceptanceRules rules() const;
  void check_judge() const;
  ExitCode judge_runs(const AcceptanceRules& rules, const Streams& streams) const;
  ExitCode measure(const AcceptanceRules& rules, const Streams& streams);
  Suite planned(RunNotes& notes, std::optional<double> budget_seconds) const;
  std::vector<NamedFile> outputs() const;
  std::vector<NamedFile> inputs() const;
  Acceptance judge(const std::vector<AcceptanceInput>& inputs, const AcceptanceRules& rules,
                   AcceptanceContext context) const;
  ExitCode finish(const std::vector<AcceptanceInput>& inputs, const Acceptance& acceptance,
                  const std::filesystem::path& folder, const Streams& streams) const;

  RunOptions run_;
  AcceptOptions accept_;
};

AcceptanceRules AcceptCommand::rules() const {
  std::vector<Override> overrides;
  for (const std::string& text : accept_.settings) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw Error(
          ErrorKind::usage,
          fmt::format("--rule {}: key=value is expected, such as fleet.slow_ratio=1.03", text));
    Override& one = overrides.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    one.source = "--rule " + one.key;
    one.written = "--rule " + text;
  }
  AcceptanceRules rules = load_acceptance_rules(accept_.rules, overrides);
  if (accept_.devices) {
    const double count = *accept_.devices;
    if (!(count >= 0 && count == std::floor(count) && count < 1e6))
      throw Error(ErrorKind::usage, "--expect-devices: a whole number is expected, such as 8");
    rules.devices_per_node = static_cast<int64_t>(count);
  }
  return rules;
}

void AcceptCommand::check_judge() const {
  if (accept_.judged.empty()) return;
  const bool runs = !run_.suite.empty() || !run_.config.empty() || !run_.resume.empty() ||
                    !run_.budget.empty() || !run_.output_folder.empty() || run_.list ||
                    run_.dry_run || run_.dump_config || run_.kernels || accept_.devices ||
                    changes_suite(run_) || any_given(run_.launch);
  if (runs)
    throw Error(ErrorKind::usage,
                "--judge runs nothing: give neither a suite nor settings of a run with it");
}

Acceptance AcceptCommand::judge(const std::vector<AcceptanceInput>& inputs,
                                const AcceptanceRules& rules, AcceptanceContext context) const {
  std::optional<Baseline> baseline;
  if (!accept_.baseline.empty())
    baseline = parse_baseline(read_file(accept_.baseline), accept_.baseline);
  context.baseline = baseline ? &*baseline : nullptr;
  context.force_baseline = accept_.force;
  for (const std::string& file : accept_.collectives)
    context.collectives.push_back(parse_collective_table(read_file(file), file));
  return judge_acceptance(inputs, rules, context);
}

ExitCode AcceptCommand::finish(const std::vector<AcceptanceInput>& inputs,
                               const Acceptance& acceptance, const std::filesystem::path& folder,
                               const Streams& streams) const {
  std::vector<Record> records;
  for (const AcceptanceInput& input : inputs) records.push_back(input.record);
  const std::vector<Record> all = with_nodes(records, acceptance);
  if (!folder.empty()) {
    write_file_atomically(folder / "acceptance.json", acceptance_json(acceptance));
    for (const NodeFile& file : kFiles)
      write_export(file.format, (folder / file.name).string(), run_.exports.strict, all, streams);
  }
  if (!accept_.verdict_file.empty())
    write_text(accept_.verdict_file, acceptance_json(acceptance), streams);
  for (const auto& [format, file] : run_.exports.files) {
    if (!file.empty())
      write_export(format, file, run_.exports.strict, has_nodes(format) ? all : records, streams);
  }
  if (!any_on_standard_output(outputs())) {
    write_acceptance(streams.out, acceptance,
                     {use_colour(run_.colour, STDOUT_FILENO), terminal_width(STDOUT_FILENO)});
  }
  if (accept_.drain) drain(acceptance, streams);
  return acceptance.exit_code;
}

ExitCode AcceptCommand::judge_runs(const AcceptanceRules& rules, const Streams& streams) const {
  std::vector<AcceptanceInput> inputs;
  const std::vector<RunFolder> folders = find_runs(accept_.judged);
  for (const RunFolder& folder : folders) {
    require_other_files(outputs(), files_of_run("run " + folder.run_id(), folder));
    for (AcceptanceInput& input : acceptance_inputs(folder)) inputs.push_back(std::move(input));
  }
  return finish(inputs, judge(inputs, rules, recorded_context(folders)), {}, streams);
}

// The suite, of which a budget may take a part.
Suite AcceptCommand::planned(RunNotes& notes, std::optional<double> budget_seconds) const {
  Suite suite = suite_to_measure(run_);
  if (!budget_seconds || !run_.resume.empty()) return suite;
  const CellChoice choice = choose_cells(suite, *budget_seconds);
  if (!choice.left_out.empty()) {
    std::vector<std::string> names;
    for (const size_t i : choice.left_out) names.push_back(suite.cases[i].id());
    notes.notes.push_back(fmt::format("the budget of {} left out {} of {} cases: {}", run_.budget,
                                      names.size(), suite.cases.size(), join(names, ", ")));
  }
  return with_cells(suite, choice);
}

std::vector<NamedFile> AcceptCommand::outputs() const {
  std::vector<NamedFile> files = files_of(run_.exports);
  files.push_back({"--verdict", accept_.verdict_file});
  return files;
}

std::vector<NamedFile> AcceptCommand::inputs() const {
  std::vector<NamedFile> files = files_read(run_);
  files.push_back({"the rules", accept_.rules});
  files.push_back({"the baseline", accept_.baseline});
  for (const std::string& file : accept_.collectives) files.push_back({"the collectives", file});
  return files;
}

ExitCode AcceptCommand::measure(const AcceptanceRules& rules, const Streams& streams) {
  if (run_.suite.empty() && run_.config.empty() && run_.resume.empty()) run_.suite = kSuite;
  std::optional<double> budget_seconds;
  if (!run_.budget.empty()) budget_seconds = parse_duration("--budget", run_.budget);
  RunNotes notes;
  const Suite suite = planned(notes, budget_seconds);
  check_launcher(suite.launch);
  if (run_.dump_config) {
    streams.out << dump_suite(suite);
    return ExitCode::pass;
  }
  if (run_.list || run_.dry_run) {
    for (const std::string& note : notes.notes) streams.out << "note: " << note << '\n';
    const size_t runs = write_plan(streams.out, suite, available_memory_bytes(), available_cores());
    return runs == 0 ? ExitCode::skipped : ExitCode::pass;
  }
  if (rules.devices_per_node > 0) require_devices(rules.devices_per_node);
  // Of a run that is resumed the stages are those that are left; without any, nothing is to be said that it does not say itself, and
  // nothing is measured that another process could disturb.
  const std::vector<std::string> cases = cases_to_measure(run_, suite);
  if (!cases.empty()) {
    if (rules.idle_timeout_seconds > 0 && !run_.no_progress)
      streams.err << fmt::format("dettax: waiting until the machine is idle, {} at most\n",
                                 format_seconds(rules.idle_timeout_seconds));
    const IdleStage idle = wait_until_idle(rules);
    notes.not_idle = idle.not_idle;
    notes.notes.push_back(
        fmt::format("stages in their order: {}, {}", idle.note, join(cases, ", ")));
  }
  RunFolder folder = folder_to_measure(run_, suite);
  const MeasuredSuite done =
      measure_suite(suite, folder, run_, budget_seconds, "accept", streams, notes);
  // Of the folder, so that what an interruption left out is incomplete and what it finished counts.
  const std::vector<AcceptanceInput> inputs = acceptance_inputs(folder);
  const ExitCode code =
      finish(inputs, judge(inputs, rules, recorded_context({folder})), folder.path(), streams);
  return done.signal ? exit_code_of_signal(*done.signal) : code;
}

ExitCode AcceptCommand::run(const Streams& streams) {
  // All that can be wrong with the command line is found before a folder is made.
  require_single_start();
  check_judge();
  require_writable(run_.exports);
  require_other_files(outputs(), inputs());
  if (run_.kernels) require_kernel_programs();
  if (!accept_.verdict_file.empty()) require_writable("--verdict", accept_.verdict_file);
  const AcceptanceRules rules = this->rules();
  judge({}, rules, {});  // reads what it needs
  if (!run_.list && !run_.dump_config) require_backend(run_);
  return accept_.judged.empty() ? measure(rules, streams) : judge_runs(rules, streams);
}

}  // namespace

std::unique_ptr<Command> make_accept_command() { return std::make_unique<AcceptCommand>(); }

}  // namespace dettax

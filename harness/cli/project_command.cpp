#include <charconv>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/cli/command.h"
#include "harness/cli/outlook_options.h"
#include "harness/cli/project_text.h"
#include "harness/cli/run_path.h"
#include "harness/plan/loaders.h"
#include "harness/plan/suite.h"
#include "results/analysis/projection/projection_json.h"
#include "results/analysis/projection/sweep.h"
#include "results/analysis/projection/tax.h"
#include "results/analysis/projection/validate.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

Yaml from_flag(const std::string& flag, const std::string& value) {
  Yaml node = yaml_scalar(value);
  set_origin(node, flag, flag);
  return node;
}

int64_t whole(const std::string& flag, const std::string& text, int64_t least) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  if (fault == std::errc() && rest == end && value >= least) return value;
  throw Error(ErrorKind::usage,
              fmt::format("{}: \"{}\" is no whole number from {} on", flag, text, least));
}

class ProjectCommand : public Command {
 public:
  const char* name() const override { return "project"; }
  const char* what() const override {
    return "step time and tax of a layout on a cluster that is not here, simulated";
  }
  void declare(Options& options) override {
    options.positional("MODEL", model_, "a name from configs/models or a file", false);
    options.text("--cluster", "NAME", cluster_,
                 "a cluster whose file describes its hardware (h100 if left out; local with "
                 "--predict)");
    options.text("--layout", "TEXT", layout_,
                 "such as dp16.tp8.pp4.vp5.sp.zero1, selective or full for recomputation");
    options.text("--schedule", "NAME", schedule_,
                 join(schedule_kind_words(), ", ") + "; by the layout if left out");
    options.text("--precision", "NAME", precision_,
                 join(precision_words(), ", ") + " (bf16 if left out)");
    options.text("--mbs", "N", micro_, "samples of a micro-batch (1)");
    options.text("--gbs", "N", global_, "samples of a step (8 micro-batches a replica)");
    options.text("--seq-length", "N", length_, "tokens of a sample (the model's context)");
    options.text("--mode", "NAME", mode_,
                 "the mode whose tax is projected (deterministic if left out)");
    options.flag("--no-tensor-overlap", lose_overlap_,
                 "the mode also gives up hiding tensor-parallel traffic, as Megatron's does");
    options.text("--gpus", "N,N,...", gpus_,
                 "the same layout on other numbers of GPUs; replicas and batch grow together");
    options.flag("--sweep", sweep_,
                 "all layouts of the same GPUs and batch, the fastest that fits first");
    options.text("--op-table", "FILE", table_,
                 "measured times of operations and collectives: CSV, JSON of kernel_bench or "
                 "collective_bench, or a run made with --kernels (its folder, name or latest)");
    options.text("--seed", "N", seed_, "of the noise (1)");
    options.flag("--validate", validate_,
                 "projects every published step time and prints the errors, by table");
    options.texts("--predict", "RUN", predict_,
                  "fits the cluster to a run's small layouts, predicts its others and prints the "
                  "errors; may be repeated");
    options.text("--calibrate-on", "GLOB", calibrate_on_,
                 "with --predict: the cases to fit to (those of one or two ranks if left out)");
    options.flag("--calibrate", calibrate_,
                 "fits the efficiencies to the calibration rows and prints them (a minute)");
    declare_outlook_files(options, files_);
  }
  ExitCode run(const Streams& streams) override {
    silent_ = checked_on_standard_output(files_, {{"--op-table", table_}});
    if ((calibrate_ || validate_ || sweep_ || !predict_.empty()) && shows_outlook())
      throw Error(ErrorKind::usage,
                  "--html, --markdown, --openmetrics: are of projections; leave out --sweep, "
                  "--validate, --predict and --calibrate");
    if (predict_.empty() && !calibrate_on_.empty())
      throw Error(ErrorKind::usage, "--calibrate-on: goes with --predict RUN");
    if (calibrate_) return calibrate(streams);
    if (validate_) return run_validation(streams);
    if (!predict_.empty()) return run_prediction(streams);
    if (model_.empty())
      throw Error(ErrorKind::usage,
                  "project: which model? Such as dettax project llama3-70b --cluster h100 "
                  "--layout dp16.tp8.pp4.sp.zero1; or --validate");
    const Hardware machine = load_hardware(cluster_.empty() ? "h100" : cluster_);
    const TrainingPlan plan = read_plan();
    if (const auto reason = plan_refusal(plan)) throw Error(ErrorKind::config, *reason);
    if (sweep_) return run_sweep(streams, machine, plan);
    return run_projections(streams, machine, plan);
  }

 private:
  bool shows_outlook() const {
    return !files_.html.empty() || !files_.markdown.empty() || !files_.openmetrics.empty();
  }

  static ExitCode calibrate(const Streams& streams) {
    write_fit(streams.out, fit_calibration(load_published(), load_calibration()));
    return ExitCode::pass;
  }

  ExitCode run_validation(const Streams& streams) const {
    const Validation validation = validate(load_published(), load_calibration());
    if (!silent_) write_validation(streams.out, validation);
    write_outlook_files(files_, {}, {}, validation_json(validation), streams);
    return ExitCode::pass;
  }

  bool calibrates_on(const MeasuredLayout& layout) const {
    constexpr int64_t kSmall = 2;
    return calibrate_on_.empty() ? layout.plan.ranks() <= kSmall
                                 : matches_glob(calibrate_on_, layout.name);
  }

  void add_layouts(const std::string& run, const Streams& streams,
                   std::vector<MeasuredLayout>& layouts) const {
    for (const Record& record : RunFolder::open(find_run(run)).records()) {
      if (const std::string refusal = layout_refusal(record); !refusal.empty()) {
        streams.err << fmt::format("dettax: {}: left out: {}\n", record.case_id, refusal);
        continue;
      }
      layouts.push_back(measured_layout(record));
      layouts.back().calibration = calibrates_on(layouts.back());
    }
  }

  ExitCode run_prediction(const Streams& streams) const {
    const Hardware machine = load_hardware(cluster_.empty() ? "local" : cluster_);
    std::vector<MeasuredLayout> layouts;
    for (const std::string& run : predict_) add_layouts(run, streams, layouts);
    const auto table = table_.empty() ? std::nullopt : std::optional(any_table());
    const LayoutPrediction prediction =
        predict_layouts(machine, layouts, table ? &*table : nullptr);
    if (!silent_) write_prediction(streams.out, machine, prediction);
    write_outlook_files(files_, {}, {}, prediction_json(machine, prediction), streams);
    return ExitCode::pass;
  }

  ExitCode run_sweep(const Streams& streams, const Hardware& machine,
                     const TrainingPlan& plan) const {
    constexpr int kMost = 5000;
    const Sweep sweep = sweep_layouts(machine, plan, kMost);
    if (!silent_) write_sweep(streams.out, machine, sweep);
    write_outlook_files(files_, {}, {}, sweep_json(machine, sweep), streams);
    return sweep.rows.empty() || !sweep.rows.front().fits ? ExitCode::fail : ExitCode::pass;
  }

  ExitCode run_projections(const Streams& streams, const Hardware& machine,
                           const TrainingPlan& plan) const {
    const Mode mode = load_mode(mode_);
    const Mode fast = load_mode("fast");
    const DeterminismRanges ranges = load_determinism_ranges();
    const auto table = table_.empty() ? std::nullopt : std::optional(read_table(plan));
    std::vector<ProjectedCase> cases;
    for (const TrainingPlan& one : plans(plan)) {
      if (const auto reason = plan_refusal(one)) throw Error(ErrorKind::config, *reason);
      TaxRequest request{machine,      one, mode, fast, ranges, table ? &*table : nullptr,
                         lose_overlap_};
      request.jitter.seed = static_cast<uint64_t>(whole("--seed", seed_, 0));
      cases.push_back({one, mode.name, project_tax(request)});
    }
    if (!silent_) write_projections(streams.out, machine, cases);
    Outlook outlook;
    for (const ProjectedCase& one : cases)
      outlook.projections.push_back(projected_step(machine, one));
    write_outlook_files(files_, {}, outlook, projections_json(machine, cases), streams);
    return ExitCode::pass;
  }

  std::vector<TrainingPlan> plans(const TrainingPlan& plan) const {
    if (gpus_.empty()) return {plan};
    std::vector<TrainingPlan> all;
    for (const std::string& text : split(gpus_, ','))
      all.push_back(on_ranks(plan, whole("--gpus", text, 1)));
    return all;
  }

  OpTable any_table() const {
    if (table_.ends_with(".csv") || table_.ends_with(".json")) return OpTable::read(table_);
    return OpTable::of_records(RunFolder::open(find_run(table_)).records(), table_);
  }

  OpTable read_table(const TrainingPlan& plan) const {
    OpTable table = any_table();
    const auto absent = table.missing({"gemm", "attention_forward", "attention_backward"},
                                      to_string(plan.precision), "fast");
    if (absent.empty()) return table;
    throw Error(
        ErrorKind::config,
        fmt::format("{}: has no {} in {} and mode fast; leave --op-table out to project it from "
                    "the cluster's peaks",
                    table_, join(absent, ", "), to_string(plan.precision)));
  }

  void set_schedule(TrainingPlan& plan) const {
    plan.schedule = plan.layout.vp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
    if (plan.layout.schedule == PipelineSchedule::gpipe) plan.schedule = ScheduleKind::gpipe;
    if (schedule_.empty()) return;
    plan.schedule = static_cast<ScheduleKind>(
        read_word(from_flag("--schedule", schedule_), "--schedule", schedule_kind_words()));
  }

  TrainingPlan read_plan() const {
    TrainingPlan plan;
    plan.model = load_model(model_);
    plan.layout = read_layout(from_flag("--layout", layout_), "--layout");
    set_schedule(plan);
    plan.precision = static_cast<Precision>(
        read_word(from_flag("--precision", precision_), "--precision", precision_words()));
    plan.software.parameter_bytes = element_bytes(plan.precision);
    plan.batch.micro = whole("--mbs", micro_, 1);
    plan.batch.global =
        global_.empty() ? 8 * plan.batch.micro * plan.layout.dp : whole("--gbs", global_, 1);
    plan.batch.sequence_length =
        length_.empty() ? plan.model.context : whole("--seq-length", length_, 1);
    return plan;
  }

  std::string model_, cluster_, calibrate_on_, layout_ = "dp1", schedule_, precision_ = "bf16";
  std::string micro_ = "1", global_, length_, mode_ = "deterministic", gpus_, table_, seed_ = "1";
  OutlookFiles files_;
  std::vector<std::string> predict_;
  bool lose_overlap_ = false, sweep_ = false, validate_ = false, calibrate_ = false,
       silent_ = false;
};

}  // namespace

std::unique_ptr<Command> make_project_command() { return std::make_unique<ProjectCommand>(); }

}  // namespace dettax

#include <charconv>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/cli/command.h"
#include "harness/cli/outlook_options.h"
#include "harness/cli/project_text.h"
#include "harness/cli/run_path.h"
#include "harness/plan/catalog.h"
#include "harness/plan/loaders.h"
#include "harness/plan/suite.h"
#include "results/analysis/projection/plan_limits.h"
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

int64_t whole(const std::string& flag, const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  if (fault == std::errc() && rest == end && value >= least && value <= most) return value;
  throw Error(ErrorKind::usage,
              fmt::format("{}: \"{}\" is no whole number from {} to {}", flag, text, least, most));
}

// What is asked for: one projection or several, or one of the flags that stand for something else.
enum Task : unsigned { projects = 1, sweeps = 2, validates = 4, predicts = 8, calibrates = 16 };

std::string text_or(const std::string& text, const char* otherwise) {
  return text.empty() ? otherwise : text;
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
    refuse_unused();
    silent_ = checked_on_standard_output(files_, inputs());
    if (calibrate_) return calibrate(streams);
    if (validate_) return run_validation(streams);
    if (!predict_.empty()) return run_prediction(streams);
    if (model_.empty())
      throw Error(ErrorKind::usage,
                  "project: which model? Such as dettax project llama3-70b --cluster h100 "
                  "--layout dp16.tp8.pp4.sp.zero1; or --validate");
    const Hardware machine = load_hardware(cluster());
    const TrainingPlan plan = read_plan();
    if (const auto reason = plan_refusal(plan)) throw Error(ErrorKind::config, *reason);
    if (sweep_) return run_sweep(streams, machine, plan);
    return run_projections(streams, machine, plan);
  }

 private:
  bool shows_outlook() const {
    return !files_.html.empty() || !files_.markdown.empty() || !files_.openmetrics.empty();
  }

  std::string cluster() const {
    if (!cluster_.empty()) return cluster_;
    return predict_.empty() ? "h100" : "local";
  }

  // With the flag that asks for it.
  std::pair<Task, const char*> task() const {
    std::vector<std::pair<Task, const char*>> asked;
    if (calibrate_) asked.emplace_back(calibrates, "--calibrate");
    if (validate_) asked.emplace_back(validates, "--validate");
    if (!predict_.empty()) asked.emplace_back(predicts, "--predict");
    if (sweep_) asked.emplace_back(sweeps, "--sweep");
    if (asked.size() > 1)
      throw Error(ErrorKind::usage, fmt::format("{}: does not go with {}; choose one",
                                                asked[1].second, asked[0].second));
    return asked.empty() ? std::pair{projects, "a projection"} : asked.front();
  }

  void refuse_unused() const {
    const auto [task, asked] = this->task();
    if (task != projects && shows_outlook())
      throw Error(ErrorKind::usage,
                  "--html, --markdown, --openmetrics: are of projections; leave out --sweep, "
                  "--validate, --predict and --calibrate");
    if (task != predicts && !calibrate_on_.empty())
      throw Error(ErrorKind::usage, "--calibrate-on: goes with --predict RUN");
    struct Given {
      const char* flag;
      bool given;
      unsigned used_by;
    };
    // A sweep tries schedules and micro-batches itself, without a mode and without noise.
    for (const Given& one : {Given{"MODEL", !model_.empty(), projects | sweeps},
                             {"--cluster", !cluster_.empty(), projects | sweeps | predicts},
                             {"--layout", !layout_.empty(), projects | sweeps},
                             {"--schedule", !schedule_.empty(), projects},
                             {"--precision", !precision_.empty(), projects | sweeps},
                             {"--mbs", !micro_.empty(), projects},
                             {"--gbs", !global_.empty(), projects | sweeps},
                             {"--seq-length", !length_.empty(), projects | sweeps},
                             {"--mode", !mode_.empty(), projects},
                             {"--no-tensor-overlap", lose_overlap_, projects},
                             {"--gpus", !gpus_.empty(), projects},
                             {"--op-table", !table_.empty(), projects | predicts},
                             {"--seed", !seed_.empty(), projects},
                             {"--json", !files_.json.empty(), ~unsigned{calibrates}}}) {
      if (one.given && (one.used_by & task) == 0)
        throw Error(ErrorKind::usage,
                    fmt::format("{}: {} does not use it; leave it out", one.flag, asked));
    }
  }

  // All that is read and could be written over.
  std::vector<NamedFile> inputs() const {
    if (calibrate_ || validate_) return {};
    std::vector<NamedFile> read = {{"--cluster", resolve(FileKind::cluster, cluster())}};
    if (!model_.empty()) read.push_back({"MODEL", resolve(FileKind::model, model_)});
    if (!mode_.empty()) read.push_back({"--mode", resolve(FileKind::mode, mode_)});
    if (!table_.empty())
      read.push_back({"--op-table", is_table_file() ? table_ : find_run(table_).string()});
    for (const std::string& run : predict_) read.push_back({"--predict", find_run(run).string()});
    return read;
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

  // Its layouts would count twice.
  void refuse_twice() const {
    for (size_t i = 0; i < predict_.size(); ++i) {
      for (size_t other = 0; other < i; ++other) {
        if (std::filesystem::equivalent(find_run(predict_[i]), find_run(predict_[other])))
          throw Error(ErrorKind::usage, fmt::format("--predict {}: is given twice", predict_[i]));
      }
    }
  }

  ExitCode run_prediction(const Streams& streams) const {
    const Hardware machine = load_hardware(cluster());
    refuse_twice();
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
    const Mode mode = load_mode(text_or(mode_, "deterministic"));
    const Mode fast = load_mode("fast");
    const DeterminismRanges ranges = load_determinism_ranges();
    const auto table = table_.empty() ? std::nullopt : std::optional(read_table(plan));
    std::vector<ProjectedCase> cases;
    for (const TrainingPlan& one : plans(plan)) {
      if (const auto reason = plan_refusal(one)) throw Error(ErrorKind::config, *reason);
      TaxRequest request{machine,      one, mode, fast, ranges, table ? &*table : nullptr,
                         lose_overlap_};
      request.jitter.seed = static_cast<uint64_t>(
          whole("--seed", text_or(seed_, "1"), 0, std::numeric_limits<int64_t>::max()));
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
      all.push_back(on_ranks(plan, whole("--gpus", text, 1, kMostRanks)));
    return all;
  }

  // Rather than a run.
  bool is_table_file() const {
    return table_.ends_with(".csv") || table_.ends_with(".json") ||
           std::filesystem::is_regular_file(table_);
  }

  OpTable any_table() const {
    if (is_table_file()) return OpTable::read(table_);
    return OpTable::of_records(RunFolder::open(find_run(table_)).records(), table_);
  }

  // Products and attention are measured together or not at all: half of a step would be compared with another machine's.
  OpTable read_table(const TrainingPlan& plan) const {
    const std::vector<std::string> step_ops = {"gemm", "attention_forward", "attention_backward"};
    OpTable table = any_table();
    const auto absent = table.missing(step_ops, to_string(plan.precision), "fast");
    const bool of_collectives = absent.size() == step_ops.size() && table.has_collectives();
    if (absent.empty() || of_collectives) return table;
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
    plan.layout = read_layout(from_flag("--layout", text_or(layout_, "dp1")), "--layout");
    set_schedule(plan);
    plan.precision = static_cast<Precision>(read_word(
        from_flag("--precision", text_or(precision_, "bf16")), "--precision", precision_words()));
    plan.software.parameter_bytes = element_bytes(plan.precision);
    plan.batch.micro = whole("--mbs", text_or(micro_, "1"), 1, kMostMicroBatch);
    plan.batch.global = global_.empty() ? 8 * plan.batch.micro * plan.layout.dp
                                        : whole("--gbs", global_, 1, kMostGlobalBatch);
    plan.batch.sequence_length =
        length_.empty() ? plan.model.context : whole("--seq-length", length_, 1, kMostSequence);
    return plan;
  }

  std::string model_, cluster_, calibrate_on_, layout_, schedule_, precision_;
  std::string micro_, global_, length_, mode_, gpus_, table_, seed_;
  OutlookFiles files_;
  std::vector<std::string> predict_;
  bool lose_overlap_ = false, sweep_ = false, validate_ = false, calibrate_ = false,
       silent_ = false;
};

}  // namespace

std::unique_ptr<Command> make_project_command() { return std::make_unique<ProjectCommand>(); }

}  // namespace dettax

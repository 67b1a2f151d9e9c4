// What the program says to bad input: one line, the right exit code, nothing on standard output.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/text.h"
#include "harness/plan/suite.h"
#include "tests/cli/program.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_program;
using ::testing::StartsWith;
using testing::TemporaryFolder;
using testing::tiny_suite_yaml;
using testing::write_suite;

struct Message {
  std::string arguments;
  int exit_code;
  std::string err;  // whole
};

TEST(BadInput, IsOneLineThatSaysWhatWouldBeRight) {
  const TemporaryFolder folder;
  const std::vector<Message> table = {
      {"", 2,
       "dettax: which command? known: run, report, export, serve, push, compare, diff, bisect, "
       "verify, restart-check, accept, baseline, attribute, list, log, project, decide, doctor; "
       "see dettax --help\n"},
      {"rnu", 2, "dettax: there is no command \"rnu\"; did you mean \"run\"?\n"},
      {"run", 2, "dettax: run: which suite? known: " + join(list_suites(), ", ") + "\n"},
      {"run tniy", 2, "dettax: suite \"tniy\" does not exist; did you mean \"tiny\"?\n"},
      {"run tiny --sed 3", 2,
       "dettax: \"--sed\" was not expected; did you mean \"--seed\"?; see dettax run --help\n"},
      {"run tiny -C measure.rounds_min", 2,
       "dettax: -C measure.rounds_min: key=value is expected, such as measure.budget_seconds=60\n"},
      {"run tiny --budget 20x", 2,
       "dettax: --budget 20x: a time is expected, such as 90, 90s, 20m or 1.5h\n"},
      {"run tiny --dry-run --budget nan", 2,
       "dettax: --budget nan: a time is expected, such as 90, 90s, 20m or 1.5h\n"},
      {"run tiny -C cases.0.threads=4096", 2,
       "dettax: -C cases.0.threads: must be a whole number from 1 to 1024, not \"4096\"\n"},
      {"run tiny --text ''", 2, "dettax: --text: must not be empty; see dettax run --help\n"},
      {"run tiny --text /", 2, "dettax: --text: \"/\" is a folder; it must be a text file\n"},
      {"run tiny --text /no/such", 2, "dettax: --text: \"/no/such\" does not exist\n"},
      {"run tiny --text m$(printf '\\351').txt", 2,
       "dettax: the argument that begins with \"m\" is no UTF-8 (byte 0xe9); names of files and "
       "all else must be; see dettax --help\n"},
      {"run tiny --output-dir --dry-run", 2,
       "dettax: --output-dir: its value is missing; \"--dry-run\" is a flag (a file of that name "
       "is ./--dry-run); see dettax run --help\n"},
      // Known before anything starts, also where it is only asked what would run.
      {"run tiny --dry-run --launcher srun --launcher-args '--mpi=pmix --label'", 2,
       "dettax: --launcher srun: there is no Slurm job here (SLURM_JOB_ID is not set); start "
       "dettax inside one, with sbatch or salloc\n"},
      {"run tiny --launcher threads --control-address here", 2,
       "dettax: hosts and arguments need --launcher mpirun or srun; threads are of one process on "
       "this host\n"},
      {"worker", 2, "dettax: dettax worker is started by dettax run, not by hand\n"},
      {"log /", 2, "dettax: /: is a folder; it must be the log of a trainer\n"},
      {"run tiny --json /", 2, "dettax: --json /: is a folder; a file is needed\n"},
      {"run tiny --json /nowhere/x.json", 2,
       "dettax: --json /nowhere/x.json: its folder does not exist\n"},
      {"run tiny --csv - --junit -", 2,
       "dettax: --csv - and --junit -: would overwrite each other; give each a file of its own\n"},
      {"run tiny --junit /", 2, "dettax: --junit /: is a folder; a file is needed\n"},
      {"export latest --junit /nowhere/x.xml", 2,
       "dettax: --junit /nowhere/x.xml: its folder does not exist\n"},
      {"export latest --html", 2,
       "dettax: --html: its value is missing (FILE); see dettax export --help\n"},
      {"export nowhere --html x.html", 2,
       "dettax: there is no run folder \"nowhere\"; a path, a name under results/runs or "
       "\"latest\" is expected\n"},
      {"export nowhere", 2,
       "dettax: export: to which file? give one or more of --json, --markdown, --csv, --junit, "
       "--google-benchmark, --mllog, --openmetrics, --html\n"},
      {"push latest", 2, "dettax: push: to which Pushgateway? give --gateway HOST:PORT\n"},
      {"push latest --gateway http://x/", 2,
       "dettax: --gateway http://x/: host and port are expected, such as gateway:9091\n"},
      {"serve nowhere", 2, "dettax: nowhere: is no folder of runs\n"},
      {"serve / --listen 9464", 2,
       "dettax: --listen 9464: host and port are expected, such as 127.0.0.1:9464\n"},
      {"report latest --format xml", 2,
       "dettax: --format: \"xml\" is none of table, json, markdown, csv, junit, google-benchmark, "
       "mllog, openmetrics, html; see dettax report --help\n"},
      {"report latest --format html --output /", 2,
       "dettax: --output /: is a folder; a file is needed\n"},
      {"run tiny --case 'no*'", 2,
       "dettax: --case no*: no case matches; known: gpt-tiny-l1.fp32.dp1.t2.b4x64.m2\n"},
      {"run tiny --mode determinstic", 2,
       "dettax: --mode: mode \"determinstic\" does not exist; did you mean \"deterministic\"?\n"},
      {"run tiny --mode fast", 2,
       "dettax: --mode: fast is the suite's fast arm already, and promises nothing; name another "
       "mode\n"},
      {"restart-check tiny --mode fast", 2,
       "dettax: --mode: fast is the suite's fast arm already, and promises nothing; name another "
       "mode\n"},
      {"run tiny --mode invariant --mode invariant", 2,
       "dettax: --mode: a second arm named \"invariant\" in modes; give it a name of its own\n"},
      {"run tiny --dp 3", 2,
       "dettax: --dp 3: case gpt-tiny-l1.fp32.dp1.t2.b4x64.m2: batch.global: 4 is not divisible by "
       "micro * dp = 2 * 3; 6 would be\n"},
      {"run tiny --mbs 0", 2,
       "dettax: --mbs: must be a whole number from 1 to 1000000000, not \"0\"\n"},
      {"run tiny --seed abc", 2,
       "dettax: --seed: must be a whole number of at least 0, not \"abc\"\n"},
      {"run tiny --seed 99999999999999999999", 2,
       "dettax: --seed: must be a whole number from 0 to 9223372036854775807, not "
       "\"99999999999999999999\"\n"},
      {"run tiny --seed", 2, "dettax: --seed: its value is missing (N); see dettax run --help\n"},
      {"run tiny --seed 1 --seed 2", 2, "dettax: --seed: is given twice; see dettax run --help\n"},
      {"run tiny --sed=3", 2,
       "dettax: \"--sed=3\" was not expected; did you mean \"--seed\"?; see dettax run --help\n"},
      {"run tiny --no-progress=3", 2,
       "dettax: --no-progress: takes no value; see dettax run --help\n"},
      {"run tiny quick", 2, "dettax: \"quick\" was not expected; see dettax run --help\n"},
      {"run tiny --color blue", 2,
       "dettax: --color: \"blue\" is none of auto, always, never; see dettax run --help\n"},
      {"run tiny --list --dry-run", 2, "dettax: --list and --dry-run: give one of them\n"},
      {"-v", 2, "dettax: \"-v\" was not expected; see dettax --help\n"},
      {"compare a b --tolerance x", 2,
       "dettax: --tolerance: \"x\" is no number; such as 0.02 is\n"},
      {"run tiny -c tiny.yaml", 2, "dettax: -c tiny.yaml and the suite tiny: give one of them\n"},
      {"run tiny --resume .", 2,
       "dettax: --resume .: the run's own suite is resumed as it was; give neither a suite nor "
       "settings\n"},
      {"report nowhere", 2,
       "dettax: there is no run folder \"nowhere\"; a path, a name under results/runs or "
       "\"latest\" is expected\n"},
      {"report latest", 2, "dettax: there is no run under results/runs\n"},
      {"report", 2, "dettax: RUN is missing; see dettax report --help\n"},
      {"list modles", 2, "dettax: list: there is no \"modles\"; did you mean \"models\"?\n"},
  };
  for (const Message& expected : table) {
    const Outcome outcome = run_program(folder.path(), expected.arguments);
    EXPECT_EQ(outcome.err, expected.err) << expected.arguments;
    EXPECT_EQ(outcome.exit_code, expected.exit_code) << expected.arguments;
    EXPECT_EQ(outcome.out, "") << expected.arguments;
  }
}

TEST(List, NamesTheClusters) {
  const TemporaryFolder folder;
  const Outcome outcome = run_program(folder.path(), "list clusters");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("local        1 node of any number of ranks: This machine"));
}

TEST(BadInput, AFlagThatSpoilsACaseIsNamedByItsKey) {
  const TemporaryFolder folder;
  const Outcome outcome = run_program(folder.path(), "run tiny --gbs 3");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, StartsWith("dettax: --gbs: "));
  EXPECT_THAT(outcome.err, HasSubstr("micro * dp"));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
}

TEST(BadInput, AFolderThatCannotBeWrittenEndsItBeforeAnythingRuns) {
  const TemporaryFolder folder;
  const Outcome outcome = run_program(folder.path(), "run tiny --output-dir /proc/nowhere");
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(outcome.err, StartsWith("dettax: /proc/nowhere: no run folder can be made in it"));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
}

TEST(BadInput, AResultThatCannotBeWrittenIsNoSuccess) {
  const TemporaryFolder folder;
  const Outcome outcome = run_program(folder.path(), "list knobs >/dev/full #");
  EXPECT_EQ(outcome.exit_code, 4);
}

TEST(BadInput, ATextThatIsTooShortIsNamedByFlagOverrideOrFile) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "short.txt") << "short";
  const std::string suite = write_suite(
      folder.path(), tiny_suite_yaml("  - {data: {kind: text, path: short.txt}}\n"), "short");
  const auto message = [&](const std::string& arguments) {
    const Outcome outcome = run_program(folder.path(), "run " + arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr("has 5 bytes; a sequence of "));
    return outcome.err;
  };
  EXPECT_THAT(message("tiny --text short.txt"), StartsWith("dettax: --text: \""));
  EXPECT_THAT(message("tiny -C 'cases.0.data={kind: text, path: short.txt}'"),
              StartsWith("dettax: -C cases.0.data: path: \"short.txt\" "));
  EXPECT_THAT(message(suite), HasSubstr("cases.0.data.path: \"short.txt\" "));
}

TEST(BadInput, AFaultMustStrikeAnOpThatItsArmIssues) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& injection) {
    return run_program(folder.path(),
                       "run tiny --dry-run -C 'cases.0.injections=[{" + injection + "}]'")
        .err;
  };
  const std::string where =
      "dettax: suite tiny: case gpt-tiny-l1.fp32.dp1.t2.b4x64.m2: injections.0.op: ";
  EXPECT_EQ(message("kind: hang, op: forward/layer0/attention"), "");
  EXPECT_EQ(message("kind: hang, op: micro1/forward/layer0"), "");
  EXPECT_EQ(message("kind: hang, op: forward/layer0/atention"),
            where +
                "no op of arm fast begins with \"forward/layer0/atention\"; did you mean "
                "\"forward/layer0/attention\"?\n");
  EXPECT_EQ(message("kind: nan, arm: deterministic, op: forward/layer1/qkv"),
            where +
                "no op of arm deterministic begins with \"forward/layer1/qkv\"; did you mean "
                "\"forward/layer0/qkv\"?\n");
  EXPECT_EQ(message("kind: nan, op: attention"),
            where +
                "no op of arm fast begins with \"attention\"; did you mean "
                "\"forward/layer0/attention\"?\n");
  EXPECT_THAT(message("kind: hang, op: micro2/forward"),
              HasSubstr("\"micro2/forward\": a step has 2 micro-batches"));
}

TEST(DryRun, SaysThatCoresAreShared) {
  const TemporaryFolder folder;
  const auto plan = [&](const std::string& threads) {
    return run_program(folder.path(), "run tiny --dry-run -C cases.0.threads=" + threads);
  };
  EXPECT_THAT(plan("1").out, ::testing::Not(HasSubstr("waiting for a core")));
  const Outcome refused = plan("1024");
  if (refused.exit_code == 0) {  // a machine of more than 16 cores
    EXPECT_THAT(refused.out, HasSubstr("waiting for a core"));
  } else {
    EXPECT_EQ(refused.exit_code, 77);
    EXPECT_THAT(refused.out, HasSubstr("refused: 1 rank of 1024 threads on "));
  }
}

TEST(Help, ShowsTheWholeCommandAndWhatThisBuildHas) {
  const TemporaryFolder folder;
  const Outcome outcome = run_program(folder.path(), "run --help");
  EXPECT_THAT(outcome.out, HasSubstr("Usage: dettax run "));
  std::string precisions = "this build has ";
  for (const Precision usable : usable_precisions(Backend::cpu))
    precisions += std::string(precisions.ends_with("has ") ? "" : ", ") + to_string(usable);
  EXPECT_THAT(outcome.out, HasSubstr(precisions));
  EXPECT_EQ(run_program(folder.path(), "help run").out, outcome.out);
}

TEST(Help, NamesTheExitCodes) {
  const TemporaryFolder folder;
  for (const char* arguments : {"--help", "run --help"}) {
    const Outcome outcome = run_program(folder.path(), arguments);
    EXPECT_EQ(outcome.exit_code, 0);
    for (const char* code :
         {"  0  pass", "  5  determinism violated", " 77  ", "124  timeout", "128+n  signal n"}) {
      EXPECT_THAT(outcome.out, HasSubstr(code));
    }
  }
  EXPECT_EQ(run_program(folder.path(), "--version").out, "dettax " DETTAX_VERSION "\n");
}

TEST(List, HasEveryKind) {
  const TemporaryFolder folder;
  const Outcome outcome = run_program(folder.path(), "list");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* word : {"gpt2-124m", "megatron-det", "tiny", "memory_fill"})
    EXPECT_THAT(outcome.out, HasSubstr(word));
  EXPECT_EQ(run_program(folder.path(), "run --list").out, join(list_suites(), "\n") + "\n");
}

TEST(Doctor, FindsThisBuildUsable) {
  const TemporaryFolder folder;
  const Outcome outcome = run_program(folder.path(), "doctor");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("cuda        "));
  EXPECT_THAT(outcome.out, HasSubstr("; cases with backend cuda are refused"));
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("BROKEN")));
}

// Asked for on the command line it is an error, in a suite a skipped case.
TEST(Backend, CudaThatIsNotThereIsNamedWithItsCode) {
  const TemporaryFolder folder;
  const Outcome asked = run_program(folder.path(), "run tiny --backend cuda --output-dir runs");
  EXPECT_EQ(asked.exit_code, 4);
  EXPECT_THAT(asked.err, HasSubstr("--backend cuda: "));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "runs"));
  const Outcome skipped =
      run_program(folder.path(), "run tiny -C cases.*.backend=cuda --output-dir runs");
  EXPECT_EQ(skipped.exit_code, 77);
  EXPECT_THAT(skipped.out + skipped.err, HasSubstr("backend cuda is not available: "));
  const Outcome planned = run_program(folder.path(), "run tiny -C cases.*.backend=cuda --dry-run");
  EXPECT_EQ(planned.exit_code, 77);
  EXPECT_THAT(planned.out, HasSubstr("refused: backend cuda is not available: "));
  for (const char* command : {"run tiny --dry-run", "accept tiny --dry-run", "accept tiny"}) {
    const Outcome one =
        run_program(folder.path(), command + std::string(" --backend cuda --output-dir runs"));
    EXPECT_EQ(one.exit_code, 4) << command;
    EXPECT_EQ(one.err, asked.err) << command;
    EXPECT_EQ(one.out, "") << command;
  }
  // What is written for another machine may be written here.
  const Outcome dumped = run_program(folder.path(), "run tiny --backend cuda --dump-config");
  EXPECT_EQ(dumped.exit_code, 0);
  EXPECT_EQ(run_program(folder.path(), "run tiny --backend gpu").exit_code, 2);
}

// Whatever would load the plug-in says so before, as the plan does.
TEST(Backend, CudaOfASuiteThatIsNotThereIsSkippedByEveryCommand) {
  const TemporaryFolder folder;
  const std::string reason = "backend cuda is not available: ";
  for (const char* command : {"restart-check gpu", "restart-check tiny -C defaults.backend=cuda",
                              "verify --golden g.ledger --record --suite gpu"}) {
    const Outcome one = run_program(folder.path(), command);
    EXPECT_EQ(one.exit_code, 77) << command << '\n' << one.out << one.err;
    EXPECT_THAT(one.out + one.err, HasSubstr(reason)) << command;
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "g.ledger"));
}

TEST(Accept, WaitsForAnIdleMachineOnlyWhereSomethingCanRun) {
  const TemporaryFolder folder;
  const char* said = "dettax: waiting until the machine is idle, ";
  const Outcome refused = run_program(folder.path(), "accept gpu --output-dir runs");
  EXPECT_EQ(refused.exit_code, 77);
  EXPECT_THAT(refused.err, ::testing::Not(HasSubstr(said)));
  EXPECT_THAT(refused.out, ::testing::Not(HasSubstr("idle check")));
  const Outcome waited =
      run_program(folder.path(),
                  "accept tiny --output-dir runs -C measure.budget_seconds=1 -C "
                  "evidence.controls=false --rule idle.interval_seconds=0.1 --rule "
                  "idle.timeout_seconds=0.2");
  EXPECT_THAT(waited.err, HasSubstr(said));
  EXPECT_THAT(waited.out, HasSubstr("idle check"));
}

TEST(Doctor, SaysWhatIsBroken) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "home" / "suites");
  std::ofstream(folder.path() / "home" / "suites" / "bad.yaml") << "casess: []\n";
  ::setenv("DETTAX_HOME", (folder.path() / "home").c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  const Outcome broken = run_program(folder.path(), "doctor");
  ::unsetenv("DETTAX_HOME");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(broken.exit_code, 4);
  EXPECT_THAT(broken.out, HasSubstr("BROKEN"));
}

TEST(DryRun, ShowsThePlanAndStartsNothing) {
  const TemporaryFolder folder;
  const Outcome outcome = run_program(folder.path(), "run quick --dry-run");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("3 of 3 cases would run"));
  EXPECT_THAT(outcome.out, HasSubstr("memory about"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "results"));
}

TEST(DryRun, SaysWhatIsRefusedAndWhy) {
  const TemporaryFolder folder;
  const std::string suite = write_suite(folder.path(),
                                        "modes: [deterministic]\n"
                                        "cases: [{model: gpt3-175b, layout: dp1, threads: 1, "
                                        "batch: {micro: 1, global: 1, sequence_length: 64}}]\n",
                                        "big");
  const Outcome outcome = run_program(folder.path(), "run " + suite + " --dry-run");
  EXPECT_EQ(outcome.exit_code, 77);
  EXPECT_THAT(outcome.out, HasSubstr("refused: "));
  EXPECT_THAT(outcome.out, HasSubstr("0 of 1 case would run"));
}

TEST(DumpConfig, GivesTheSameSuiteAgain) {
  const TemporaryFolder folder;
  const Outcome first = run_program(folder.path(), "run tiny --dump-config --seed 7");
  EXPECT_THAT(first.out, HasSubstr("seed: 7"));
  std::ofstream(folder.path() / "again.yaml") << first.out;
  EXPECT_EQ(run_program(folder.path(), "run -c ./again.yaml --dump-config").out, first.out);
}

TEST(Flags, ReachEveryCase) {
  const TemporaryFolder folder;
  const Outcome outcome = run_program(
      folder.path(),
      "run quick --list --mbs 1 --gbs 8 --seq-length 32 --dp 2 --case '*.t2.*' -C cases.0.label=x");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("gpt-tiny.fp32.dp2.t2.b8x32.m1.x\n"));
  EXPECT_THAT(outcome.out, HasSubstr("llama-tiny.fp32.dp2.t2.b8x32.m1\n"));
}

}  // namespace
}  // namespace dettax

// The metrics server, scraped by curl, checked by promtool, and stored by a real Prometheus.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include "exporters/prometheus/metrics_server.h"
#include "exporters/prometheus/push.h"
#include "exporters/prometheus/run_collectable.h"
#include "harness/base/error.h"
#include "results/run_folder.h"
#include "tests/exporters/background_program.h"
#include "tests/exporters/consumers.h"
#include "tests/exporters/samples.h"

namespace dettax {
namespace {

using testing::HasSubstr;
using testing::Not;

class Serve : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("dettax-serve-{}", ::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A run of two cases of which one has a record.
  RunFolder make_run(const std::string& name, int finished = 1) {
    Suite suite;
    suite.name = name;
    suite.cases = {sample_record().planned, sample_record().planned};
    suite.cases[1].label = "second";
    RunFolder run = RunFolder::create(folder_ / "runs", suite);
    for (int i = 0; i < finished; ++i) finish(run, suite.cases[static_cast<size_t>(i)]);
    return run;
  }
  static void finish(RunFolder& run, const Case& planned) {
    run.journal("started", planned.id());
    Record record = sample_record();
    record.run_id = run.run_id();
    record.suite = "nightly";
    record.planned = planned;
    record.case_id = planned.id();
    run.write_record(record);
    run.journal("finished", planned.id());
  }

  ServerSettings settings() const {
    ServerSettings settings;
    settings.address = "127.0.0.1:0";
    settings.runs_folder = folder_ / "runs";
    return settings;
  }
  static std::string scrape(const MetricsServer& server, const std::string& flags = "") {
    return ask(fmt::format("curl -s {} http://127.0.0.1:{}/metrics", flags, server.port())).text;
  }
  // The page without a server.
  RunCollectable collectable(double keep_seconds = 1e6) const {
    return RunCollectable(folder_ / "runs", keep_seconds, std::chrono::milliseconds(0));
  }
  static std::string page(const RunCollectable& runs) {
    return "\n" + prometheus::TextSerializer().Serialize(runs.Collect());
  }

  std::filesystem::path folder_;
};

TEST_F(Serve, TellsOfEveryRunInAFormThatPrometheusTakes) {
  make_run("nightly", 2);
  const MetricsServer server(settings());
  const std::string text = scrape(server);
  EXPECT_THAT(text, HasSubstr("\ndettax_overhead_ratio{config_id=\"tiny.fp32.dp2.t1.b8x64/"
                              "deterministic\",precision=\"fp32\",gpu_model=\"none\"} 1.0163"));
  EXPECT_THAT(text, HasSubstr("\ndettax_run_up{suite=\"nightly\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("\ndettax_run_cases_done{suite=\"nightly\"} 2\n"));
  const Answer lint = ask("promtool check metrics < FILE", text);
  EXPECT_THAT(lint.text, Not(HasSubstr("dettax"))) << lint.text;
}

TEST_F(Serve, NewRecordsAndRunsShowWithoutARestart) {
  RunFolder run = make_run("nightly", 1);
  const RunCollectable runs = collectable();
  EXPECT_THAT(page(runs), Not(HasSubstr(".second/deterministic\",precision=\"fp32\"")));
  EXPECT_THAT(page(runs), HasSubstr("dettax_cases_finished_total{suite=\"nightly\"} 0"));
  Case second = sample_record().planned;
  second.label = "second";
  finish(run, second);
  const std::string text = page(runs);
  EXPECT_THAT(text, HasSubstr(".second/deterministic\",precision=\"fp32\""));
  EXPECT_THAT(text, HasSubstr("dettax_cases_finished_total{suite=\"nightly\"} 1"));
}

TEST_F(Serve, ARunThatIsGoingOnIsUpAndItsMissingCasesAreNoFailures) {
  const RunFolder run = make_run("nightly", 1);
  {
    const RunLock lock(run.path(), 0);
    const RunCollectable runs = collectable();
    const std::string text = page(runs);
    EXPECT_THAT(text, HasSubstr("dettax_run_up{suite=\"nightly\"} 1"));
    EXPECT_THAT(text, Not(HasSubstr("result=\"error\"} 1")));
  }
  const RunCollectable runs = collectable();
  const std::string text = page(runs);
  EXPECT_THAT(text, HasSubstr("dettax_run_up{suite=\"nightly\"} 0"));
  EXPECT_THAT(text, HasSubstr("result=\"error\"} 1")) << "it died with a case undone";
}

double value_of(const std::string& text, const std::string& name) {
  const size_t at = text.find("\n" + name);
  return at == std::string::npos ? -1 : std::strtod(text.c_str() + text.find(' ', at + 1), nullptr);
}

// The exporter follows a run that dies, is restarted, and the run resumes.
TEST_F(Serve, Export03StaleValuesDoNotLookAlive) {
  RunFolder run = make_run("nightly", 1);
  Case second = sample_record().planned;
  second.label = "second";
  auto lock = std::make_unique<RunLock>(run.path(), 0);
  auto runs = std::make_unique<RunCollectable>(folder_ / "runs", 1e6, std::chrono::milliseconds(0));
  finish(run, second);
  const std::string alive = page(*runs);
  EXPECT_EQ(value_of(alive, "dettax_run_up"), 1);
  EXPECT_EQ(value_of(alive, "dettax_cases_finished_total"), 1);
  lock.reset();  // the run dies
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  const std::string dead = page(*runs);
  EXPECT_EQ(value_of(dead, "dettax_run_up"), 0);
  EXPECT_GT(value_of(dead, "dettax_run_age_seconds"),
            value_of(alive, "dettax_run_age_seconds") + 1);
  runs = std::make_unique<RunCollectable>(folder_ / "runs", 1e6, std::chrono::milliseconds(0));
  const std::string again = page(*runs);
  EXPECT_EQ(value_of(again, "dettax_cases_finished_total"), 0) << "a counter begins anew";
  EXPECT_GE(value_of(again, "dettax_server_start_time_seconds"),
            value_of(alive, "dettax_server_start_time_seconds"));
  lock = std::make_unique<RunLock>(run.path(), 0);  // and resumes: a case is run once more
  std::filesystem::remove(run.path() / (second.id() + ".json"));
  run.journal("started", second.id());
  EXPECT_EQ(value_of(page(*runs), "dettax_run_cases_done"), 1) << "a gauge may go back";
  EXPECT_EQ(value_of(page(*runs), "dettax_cases_finished_total"), 0) << "a counter may not";
  lock.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_THAT(page(collectable(0.5)), Not(HasSubstr("nightly")))
      << "an ended run is told of for a stated time";
}

TEST_F(Serve, ADamagedRecordIsCountedAndHidesNoOtherRun) {
  make_run("nightly", 2);
  const RunFolder other = make_run("weekly", 1);
  std::ofstream(other.path() / (sample_record().planned.id() + ".json")) << "{\"half";
  const std::string text = page(collectable());
  EXPECT_THAT(text, HasSubstr("dettax_unreadable_runs 1\n"));
  EXPECT_THAT(text, HasSubstr("\ndettax_overhead_ratio{"));
}

TEST_F(Serve, AsksForUserAndPassword) {
  make_run("nightly");
  ServerSettings locked = settings();
  locked.user = "grafana";
  locked.password = "secret";
  const MetricsServer server(locked);
  const std::string code = "-o /dev/null -w '%{http_code}' ";
  EXPECT_EQ(scrape(server, code), "401");
  EXPECT_EQ(scrape(server, code + "-u grafana:secret"), "200");
  EXPECT_EQ(scrape(server, code + "-u grafana:wrong"), "401");
}

TEST_F(Serve, APortThatIsTakenIsSaid) {
  make_run("nightly");
  const MetricsServer first(settings());
  ServerSettings same = settings();
  same.address = fmt::format("127.0.0.1:{}", first.port());
  try {
    const MetricsServer second(same);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
    EXPECT_THAT(error.what(), HasSubstr("cannot be listened on"));
  }
}

TEST_F(Serve, ARealPrometheusStoresTheTax) {
  make_run("nightly", 2);
  const MetricsServer server(settings());
  const int port = free_port();
  write_file_atomically(folder_ / "prometheus.yml",
                        fmt::format("global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: "
                                    "dettax\n  static_configs: [{{targets: ['127.0.0.1:{}']}}]\n",
                                    server.port()));
  const BackgroundProgram prometheus(
      fmt::format("prometheus --config.file={0}/prometheus.yml --storage.tsdb.path={0}/data "
                  "--web.listen-address=127.0.0.1:{1} >{0}/prometheus.log 2>&1",
                  folder_.string(), port));
  const auto query = [&](const std::string& what) {
    return ask(fmt::format("promtool query instant http://127.0.0.1:{} '{}'", port, what)).text;
  };
  ASSERT_TRUE(wait_until([&] {
    return query("dettax_overhead_ratio").find("=> 1.0163") != std::string::npos;
  })) << query("up")
      << read_file(folder_ / "prometheus.log");
  EXPECT_THAT(
      query("dettax_overhead_ratio * on(config_id) group_left(mode_profile) dettax_run_info"),
      HasSubstr("mode_profile=\"deterministic\""));
  EXPECT_THAT(query("sum by (config_id) (dettax_verdict)"), Not(HasSubstr("=> 5")));
}

// What node_exporter makes of a text file of ours, and of one that is not whole.
TEST_F(Serve, NodeExportersTextfileCollectorTakesTheFile) {
  const int port = free_port();
  const std::filesystem::path file = folder_ / "dettax.prom";
  write_file_atomically(file, exported("openmetrics", every_verdict()));
  const BackgroundProgram exporter(
      fmt::format("prometheus-node-exporter --collector.disable-defaults --collector.textfile "
                  "--collector.textfile.directory={0} --web.listen-address=127.0.0.1:{1} "
                  ">{0}/node.log 2>&1",
                  folder_.string(), port));
  const auto page = [&] {
    return "\n" + ask(fmt::format("curl -s http://127.0.0.1:{}/metrics", port)).text;
  };
  ASSERT_TRUE(wait_until([&] {
    return page().find("node_textfile_scrape_error") != std::string::npos;
  })) << "install prometheus-node-exporter (it is on the package list)";
  const std::string good = page();
  EXPECT_EQ(value_of(good, "node_textfile_scrape_error"), 0) << read_file(folder_ / "node.log");
  EXPECT_THAT(good, HasSubstr("\ndettax_overhead_ratio{"));
  EXPECT_THAT(good, HasSubstr("# HELP dettax_verdict 1 for the verdict of the case"));
  const auto samples = [](const std::string& text) {
    size_t count = 0;
    for (size_t at = 0; (at = text.find("\ndettax_", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(samples(good), samples("\n" + read_file(file))) << "every series came through";
  write_file_atomically(file, exported("openmetrics", every_verdict()) + "dettax_overhead_rat");
  EXPECT_EQ(value_of(page(), "node_textfile_scrape_error"), 1);
}

TEST_F(Serve, APushReplacesWhatWasAndKeepsTheLastSuccess) {
  const int port = free_port();
  const std::string gateway = fmt::format("127.0.0.1:{}", port);
  // Debian's default keeps pushes on disk and hands them to the next one.
  const BackgroundProgram pushgateway(fmt::format(
      "prometheus-pushgateway --persistence.file= --web.listen-address={} >{}/push.log 2>&1",
      gateway, folder_.string()));
  const auto page = [&] { return "\n" + ask("curl -s http://" + gateway + "/metrics").text; };
  ASSERT_TRUE(
      wait_until([&] { return page().find("pushgateway_build_info") != std::string::npos; }));
  const Record good = sample_record();
  push_metrics({good}, gateway);
  const std::string first = page();
  EXPECT_EQ(value_of(first, "dettax_overhead_ratio{"), 1.0163);
  const double success = value_of(first, "dettax_last_success_timestamp_seconds{");
  EXPECT_GT(success, 1e9);
  Record bad = not_reproducible();
  bad.case_id = good.case_id;
  bad.environment.started_at = "2026-03-02T12:00:00Z";
  push_metrics({bad}, gateway);
  const std::string second = page();
  EXPECT_THAT(second, Not(HasSubstr("\ndettax_overhead_ratio{")))
      << "a void tax leaves none behind";
  EXPECT_EQ(value_of(second, "dettax_overhead_present{"), 0);
  EXPECT_EQ(value_of(second, "dettax_last_success_timestamp_seconds{"), success);
  EXPECT_THAT(second, HasSubstr("config_id=\"tiny.fp32.dp2.t1.b8x64/deterministic\""));
}

TEST_F(Serve, APushToNobodyIsAnErrorInOneLine) {
  try {
    push_metrics({sample_record()}, "127.0.0.1:1");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
    EXPECT_STREQ(error.what(), "127.0.0.1:1: no Pushgateway answers there");
  }
}

}  // namespace
}  // namespace dettax

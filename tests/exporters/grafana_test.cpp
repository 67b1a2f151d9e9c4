// Dashboards, provisioning and alert rules. Grafana is not in Debian 12: its files are held to what it documents, and every query is put
// to a real Prometheus that holds our metrics.
#include <chrono>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <prometheus/text_serializer.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include "exporters/metrics.h"
#include "exporters/prometheus/run_collectable.h"
#include "harness/base/text.h"
#include "results/run_folder.h"
#include "tests/exporters/background_program.h"
#include "tests/exporters/consumers.h"
#include "tests/exporters/samples.h"

namespace dettax {
namespace {

using Json = nlohmann::json;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

const std::filesystem::path kFolder = DETTAX_SOURCE_DIR "/exporters/grafana";

std::map<std::string, Json> dashboards() {
  std::map<std::string, Json> all;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder / "dashboards"))
    all[entry.path().stem()] = Json::parse(read_file(entry.path()));
  return all;
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, unused] : object.items()) keys.push_back(key);
  return keys;
}

struct Query {
  std::string where, expression;
};
// What the panels of a dashboard ask, with its variables as Grafana fills them in where all is chosen.
std::vector<Query> queries_of(const Json& board) {
  std::vector<Query> all;
  for (const Json& panel : board["panels"]) {
    for (const Json& target : panel["targets"]) {
      std::string expression = target["expr"];
      for (const Json& variable : board["templating"]["list"]) {
        if (variable["type"] != "query") continue;
        const std::string name = "$" + variable["name"].get<std::string>();
        for (size_t at = 0; (at = expression.find(name, at)) != std::string::npos;)
          expression.replace(at, name.size(), variable["allValue"]);
      }
      all.push_back({fmt::format("{}, {}", board["uid"].get<std::string>(),
                                 panel["title"].get<std::string>()),
                     expression});
    }
  }
  return all;
}

std::set<std::string> metrics_in(const std::string& text) {
  std::set<std::string> names;
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_";
  for (size_t at = 0; (at = text.find("dettax_", at)) != std::string::npos;) {
    const size_t end = std::min(text.find_first_not_of(kLetters, at), text.size());
    names.insert(text.substr(at, end - at));
    at = end;
  }
  return names;
}

TEST(Grafana, DashboardsAreOfAFormThatNeedsNoHandEdits) {
  const std::map<std::string, Json> boards = dashboards();
  EXPECT_THAT(keys_of(boards),
              UnorderedElementsAre("overview", "causes", "evidence", "nodes", "run"));
  std::set<std::string> titles;
  for (const auto& [name, board] : boards) {
    SCOPED_TRACE(name);
    EXPECT_EQ(board["uid"], "dettax-" + name) << "links and bookmarks go by it";
    EXPECT_TRUE(board["id"].is_null()) << "the database gives it";
    EXPECT_TRUE(titles.insert(board["title"]).second);
    EXPECT_GE(board["schemaVersion"].get<int>(), 36);
    EXPECT_FALSE(board.contains("__inputs")) << "asks by hand for a data source";
    EXPECT_EQ(board["tags"], Json({"dettax"})) << "by which the dashboards link to each other";
    const Json& source = board["templating"]["list"].at(0);
    EXPECT_EQ(source["type"], "datasource");
    EXPECT_EQ(source["name"], "datasource");
    EXPECT_EQ(source["query"], "prometheus");
  }
}

void expect_sound_panel(const Json& panel) {
  EXPECT_THAT(panel["type"].get<std::string>(), AnyOf("timeseries", "stat", "table"))
      << "no type that newer versions have dropped";
  EXPECT_NE(panel["title"], "");
  EXPECT_NE(panel["description"], "");
  EXPECT_EQ(panel["datasource"], Json({{"type", "prometheus"}, {"uid", "${datasource}"}}));
  EXPECT_THAT(keys_of(panel), IsSupersetOf({"id", "gridPos", "targets", "fieldConfig", "options"}));
  EXPECT_THAT(panel["fieldConfig"]["defaults"]["unit"].get<std::string>(),
              AnyOf("none", "s", "bytes", "percentunit"));
  std::set<std::string> letters;
  EXPECT_FALSE(panel["targets"].empty());
  for (const Json& target : panel["targets"]) {
    EXPECT_TRUE(letters.insert(target["refId"]).second);
    EXPECT_EQ(target["datasource"], panel["datasource"]);
    EXPECT_EQ(target["format"] == "table", panel["type"] == "table");
    EXPECT_NE(target["instant"], target["range"]);
    EXPECT_EQ(target["range"] == true, panel["type"] == "timeseries");
  }
}

TEST(Grafana, PanelsHaveIdsOfTheirOwnAndDoNotOverlap) {
  for (const auto& [name, board] : dashboards()) {
    std::set<int> ids;
    std::set<std::pair<int, int>> taken;
    for (const Json& panel : board["panels"]) {
      SCOPED_TRACE(name + ", " + panel["title"].get<std::string>());
      expect_sound_panel(panel);
      EXPECT_TRUE(ids.insert(panel["id"].get<int>()).second);
      const Json& place = panel["gridPos"];
      EXPECT_LE(place["x"].get<int>() + place["w"].get<int>(), 24);
      for (int x = 0; x < place["w"]; ++x) {
        for (int y = 0; y < place["h"]; ++y)
          EXPECT_TRUE(taken.emplace(place["x"].get<int>() + x, place["y"].get<int>() + y).second);
      }
    }
  }
}

TEST(Grafana, QueriesUseDeclaredVariablesAlone) {
  for (const auto& [name, board] : dashboards()) {
    for (const Query& query : queries_of(board))
      EXPECT_THAT(query.expression, Not(HasSubstr("$"))) << query.where;
    for (const Json& variable : board["templating"]["list"]) {
      const std::string used = "$" + variable["name"].get<std::string>();
      if (variable["type"] != "query") continue;
      EXPECT_THAT(board["panels"].dump(), HasSubstr(used)) << name << " declares it in vain";
    }
  }
}

TEST(Grafana, ProvisioningIsOfTheVersionThatIsRead) {
  const YAML::Node sources = YAML::LoadFile(kFolder / "provisioning/datasources/dettax.yaml");
  EXPECT_EQ(sources["apiVersion"].as<int>(), 1);
  EXPECT_EQ(sources["datasources"][0]["type"].as<std::string>(), "prometheus");
  for (const char* key : {"name", "uid", "access", "url"})
    EXPECT_TRUE(sources["datasources"][0][key]) << key;
  const YAML::Node boards = YAML::LoadFile(kFolder / "provisioning/dashboards/dettax.yaml");
  EXPECT_EQ(boards["apiVersion"].as<int>(), 1);
  const YAML::Node provider = boards["providers"][0];
  EXPECT_EQ(provider["type"].as<std::string>(), "file");
  for (const char* key :
       {"name", "orgId", "folder", "disableDeletion", "updateIntervalSeconds", "allowUiUpdates"})
    EXPECT_TRUE(provider[key]) << key;
  EXPECT_TRUE(provider["options"]["path"].as<std::string>().starts_with('/'));
}

TEST(Grafana, AlertRulesFireWhereTheyAreMeantToAndNowhereElse) {
  const std::string root = DETTAX_SOURCE_DIR;
  const Answer answer = ask("promtool test rules " + root + "/tests/exporters/rules_test.yaml");
  EXPECT_EQ(answer.code, 0) << answer.text;
  const std::string rules = read_file(root + "/exporters/prometheus/rules.yaml");
  const std::string tests = read_file(root + "/tests/exporters/rules_test.yaml");
  for (const std::string& line : split(rules, '\n')) {
    const size_t at = line.find("- alert: ");
    if (at == std::string::npos) continue;
    EXPECT_THAT(tests, HasSubstr("alertname: " + line.substr(at + 9) + "\n"))
        << "is never seen to fire";
    EXPECT_THAT(tests, HasSubstr("alertname: " + line.substr(at + 9) + ","))
        << "is never seen not to";
  }
}

// A Prometheus that holds metrics of two nodes and of a server of runs, each twice.
class GrafanaQueries : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("dettax-grafana-{}", ::getpid());
    std::filesystem::create_directories(folder_);
    const std::string text = add(node_metrics("node1"), "node1:9100") +
                             add(node_metrics("node2"), "node2:9100") +
                             add(live_metrics(), "node1:9464") + "# EOF\n";
    write_file_atomically(folder_ / "metrics.txt", text);
    const Answer made =
        ask(fmt::format("promtool tsdb create-blocks-from openmetrics "
                        "{0}/metrics.txt {0}/data",
                        folder_.string()));
    ASSERT_EQ(made.code, 0) << made.text;
    write_file_atomically(folder_ / "prometheus.yml",
                          "rule_files: [" DETTAX_SOURCE_DIR "/exporters/prometheus/rules.yaml]\n");
    port_ = free_port();
    prometheus_ = std::make_unique<BackgroundProgram>(
        fmt::format("prometheus --config.file={0}/prometheus.yml --storage.tsdb.path={0}/data "
                    "--web.listen-address=127.0.0.1:{1} >{0}/prometheus.log 2>&1",
                    folder_.string(), port_));
    ASSERT_TRUE(wait_until([&] {
      return ask(fmt::format("curl -sf http://127.0.0.1:{}/-/ready", port_)).code == 0;
    })) << "install prometheus (it is on the package list)";
  }
  void TearDown() override {
    prometheus_.reset();
    std::filesystem::remove_all(folder_);
  }

  static std::string node_metrics(const std::string& host) {
    std::vector<Record> records = every_verdict();
    records[0] = record_with_causes();
    for (Record& record : records) {
      record.environment.host = host;
      if (host == "node2" && !record.taxes.empty()) record.taxes[0].overhead_ratio.value *= 1.01;
    }
    return exported("openmetrics", records);
  }

  // As `dettax serve` tells of a run that lies there.
  std::string live_metrics() const {
    Suite suite;
    suite.name = "nightly";
    suite.cases = {sample_record().planned};
    RunFolder run = RunFolder::create(folder_ / "runs", suite);
    run.write_record(sample_record());
    const RunCollectable runs(folder_ / "runs", 1e6);
    std::string live;
    for (const std::string& line :
         split(prometheus::TextSerializer().Serialize(runs.Collect()), '\n')) {
      const std::string name = line.substr(0, line.find_first_of("{ "));
      const auto& known = metric_families();
      if (std::none_of(known.begin(), known.end(),
                       [&](const MetricFamily& family) { return family.name == name; }))
        live += line + "\n";
    }
    return live;
  }

  // Samples as a scrape of a target would have stored them, minutes ago and just now.
  std::string add(const std::string& text, const std::string& instance) {
    const auto now = std::chrono::duration_cast<std::chrono::seconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    std::string out;
    for (const std::string& line : split(text, '\n')) {
      if (line.empty() || line.starts_with('#')) continue;
      const size_t space = line.rfind(' ');
      std::string series = line.substr(0, space);
      if (!series.ends_with('}')) series += "{}";
      const bool alone = series.ends_with("{}");
      series.insert(series.size() - 1,
                    fmt::format("{}instance=\"{}\",job=\"dettax\"", alone ? "" : ",", instance));
      names_.merge(metrics_in(line.substr(0, line.find_first_of("{ "))));
      for (const int64_t ago : {600, 5})
        out += fmt::format("{} {} {}\n", series, line.substr(space + 1), now - ago);
    }
    return out;
  }

  // Empty if the answer holds a sample, else what came instead.
  std::string why_empty(const std::string& expression) const {
    const Answer answer = ask(
        fmt::format("curl -s http://127.0.0.1:{}/api/v1/query --data-urlencode query@FILE", port_),
        expression);
    const Json json = Json::parse(answer.text, nullptr, false);
    if (json.is_discarded() || json["status"] != "success") return answer.text;
    return json["data"]["result"].empty() ? "nothing" : "";
  }

  std::filesystem::path folder_;
  int port_ = 0;
  std::unique_ptr<BackgroundProgram> prometheus_;
  std::set<std::string> names_;  // of all that is stored
};

TEST_F(GrafanaQueries, Export07EveryPanelIsFilledAndEveryMetricThereIsOne) {
  std::set<std::string> shown;
  for (const auto& [name, board] : dashboards()) {
    for (const Query& query : queries_of(board)) {
      EXPECT_EQ(why_empty(query.expression), "") << query.where << ": " << query.expression;
      for (const std::string& metric : metrics_in(query.expression)) {
        EXPECT_TRUE(names_.contains(metric)) << query.where << " names " << metric;
        shown.insert(metric);
      }
    }
    for (const Json& variable : board["templating"]["list"]) {
      if (variable["type"] != "query") continue;
      const auto metric = metrics_in(variable["query"]["query"]);
      EXPECT_THAT(names_, IsSupersetOf(metric)) << name;
    }
  }
  for (const std::string& metric : names_)
    EXPECT_TRUE(shown.contains(metric)) << metric << " stands on no panel";
  for (const std::string& metric :
       metrics_in(read_file(DETTAX_SOURCE_DIR "/exporters/prometheus/rules.yaml")))
    EXPECT_TRUE(names_.contains(metric)) << "a rule names " << metric;
  EXPECT_EQ(why_empty("dettax_overhead_ratios"), "nothing") << "this test can fail";
}

}  // namespace
}  // namespace dettax

// The report in a real browser. Chromium is on the list of packages for checks; without it these tests say so and are skipped.
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "exporters/exporter.h"
#include "results/run_folder.h"
#include "tests/exporters/consumers.h"
#include "tests/exporters/outlooks.h"
#include "tests/exporters/samples.h"

namespace dettax {
namespace {

using testing::HasSubstr;
using testing::Not;

// Shows report.html in a frame of the given width and says in its title what came of it.
constexpr const char* kFrame = R"(<!DOCTYPE html><html><head><title>nothing</title></head><body>
<iframe id="frame" src="report.html" style="width:{}px;height:900px;border:0"></iframe><script>
const frame = document.getElementById("frame");
let errors = 0;
frame.addEventListener("load", () => {{
  const page = frame.contentDocument, view = frame.contentWindow;
  view.addEventListener("error", () => errors++);
  page.querySelectorAll("details").forEach((node) => {{ node.open = true; }});
  setTimeout(() => {{
    const root = page.documentElement;
    const charts = [...page.querySelectorAll(".chart")];
    const empty = charts.filter((node) => node.querySelectorAll("svg line, svg rect, svg circle").length < 3).length;
    const style = view.getComputedStyle(page.body);
    document.title = `charts ${{root.dataset.charts}} of ${{charts.length}}, empty ${{empty}}, errors ${{errors}}, ` +
      `overflow ${{Math.max(0, root.scrollWidth - frame.clientWidth)}}, paper ${{style.backgroundColor}}, alerts ${{view.alerted || 0}}`;
  }}, 1200);
}});
</script></body></html>
)";

class Browser : public testing::Test {
 protected:
  void SetUp() override {
    if (ask("command -v chromium").code != 0)
      GTEST_SKIP() << "chromium is not installed; ./dev install check brings it";
    folder_ = std::filesystem::temp_directory_path() / fmt::format("dettax-browser-{}", ::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  // The title of the frame's page, then what the browser logged of its console.
  std::string look(const std::vector<Record>& records, int width, const std::string& flags = "",
                   const Outlook* outlook = nullptr) {
    ExportSettings settings;
    settings.outlook = outlook;
    write_file_atomically(folder_ / "report.html", exported("html", records, settings));
    write_file_atomically(folder_ / "frame.html", fmt::format(fmt::runtime(kFrame), width));
    const Answer answer = ask(fmt::format(
        "timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
        "--disable-background-networking --disable-component-update --disable-sync "
        "--allow-file-access-from-files --enable-logging=stderr --user-data-dir={0}/profile "
        "--window-size=1400,1000 --virtual-time-budget=8000 {1} --dump-dom file://{0}/frame.html "
        "| grep -a -o -e '<title>[^<]*' -e 'CONSOLE.*'",
        folder_.string(), flags));
    return answer.text;
  }

  std::filesystem::path folder_;
};

TEST_F(Browser, DrawsEveryChartWithoutAnError) {
  const std::string seen = look(every_verdict(), 1200);
  EXPECT_THAT(seen, HasSubstr("charts 8 of 8, empty 0, errors 0, overflow 0"));
  EXPECT_THAT(seen, Not(HasSubstr("CONSOLE")));
}

TEST_F(Browser, FitsAPhone) {
  EXPECT_THAT(look(every_verdict(), 360),
              HasSubstr("charts 8 of 8, empty 0, errors 0, overflow 0"));
}

TEST_F(Browser, DrawsTheCausesAtEveryWidth) {
  for (const int width : {360, 1200}) {
    const std::string seen = look({record_with_causes(), sample_record()}, width);
    EXPECT_THAT(seen, HasSubstr("charts 6 of 6, empty 0, errors 0, overflow 0")) << width;
    EXPECT_THAT(seen, Not(HasSubstr("CONSOLE")));
  }
}

TEST_F(Browser, DrawsWhatIsExpectedAtEveryWidth) {
  const Outlook outlook = sample_outlook();
  for (const int width : {360, 1200}) {
    const std::string seen = look({}, width, "", &outlook);
    EXPECT_THAT(seen, HasSubstr("charts 3 of 3, empty 0, errors 0, overflow 0")) << width;
    EXPECT_THAT(seen, Not(HasSubstr("CONSOLE")));
  }
}

TEST_F(Browser, IsDarkWhereTheReaderIs) {
  EXPECT_THAT(look({sample_record()}, 800), HasSubstr("paper rgb(255, 255, 255)"));
  EXPECT_THAT(
      look({sample_record()}, 800, "--force-dark-mode --blink-settings=preferredColorScheme=0"),
      HasSubstr("paper rgb(20, 23, 27)"));
}

TEST_F(Browser, RunsNothingOfWhatARecordHolds) {
  Record record = hostile();
  record.case_id = "<img src=x onerror='window.alerted=1'>" + record.case_id;
  record.verdict.reason += "</script><script>window.alerted = 1</script>";
  record.planned.model.name = "</script><script>window.alerted = 1</script>";
  record.arms[0].arm = "<svg onload='window.alerted=1'>";
  record.profiles = record_with_causes().profiles;
  record.profiles[0].arm = record.profiles[0].mechanisms[0].mechanism = record.arms[0].arm;
  record.ablation = record_with_causes().ablation;
  record.ablation->knobs[0].knob = record.ablation->mechanisms[0] = record.verdict.reason;
  const std::string seen = look({record, sample_record()}, 800);
  EXPECT_THAT(seen, HasSubstr("errors 0, overflow 0"));
  EXPECT_THAT(seen, HasSubstr("alerts 0"));
  EXPECT_THAT(seen, Not(HasSubstr("CONSOLE")));
}

TEST_F(Browser, SeesAnErrorWhereThereIsOne) {
  std::string page = exported("html", {sample_record()});
  page.replace(page.find("const forest ="), 14, "const fores_ =");
  write_file_atomically(folder_ / "broken.html", page);
  const Answer answer = ask(fmt::format(
      "timeout 60 chromium --headless --no-sandbox --disable-gpu --enable-logging=stderr "
      "--user-data-dir={0}/profile --virtual-time-budget=3000 --dump-dom file://{0}/broken.html "
      "| grep -a CONSOLE",
      folder_.string()));
  EXPECT_THAT(answer.text, HasSubstr("forest is not defined"));
}

TEST(Html, TwoHundredCasesFitFiveMegabytes) {
  const std::string page = exported("html", many_records(200));
  EXPECT_LT(page.size(), 5U << 20U) << page.size();
  EXPECT_EQ(refusal_by_consumer("html", page), "");
}

TEST(Html, ShowsKnobsMechanismsAndTheSufficientSet) {
  const std::string page = exported("html", {record_with_causes()});
  EXPECT_EQ(refusal_by_consumer("html", page), "");
  for (const char* words : {"<h3>Causes: knobs", "<td class=\"number\">+3.60 ms</td>",
                            "enough for equal bits here, in 7 runs: attention",
                            "backward/layer0/attention", "\"knob\": \"interaction\""})
    EXPECT_THAT(page, HasSubstr(words));
  EXPECT_THAT(exported("html", {sample_record()}), Not(HasSubstr("<h3>Causes")));
}

TEST(Html, ShowsKernelsBesideTheRoofline) {
  const std::string page = exported("html", {record_with_kernels()});
  EXPECT_EQ(refusal_by_consumer("html", page), "");
  EXPECT_THAT(page, HasSubstr("230 GFLOP/s, 20 GB/s of memory"));
  EXPECT_THAT(page, HasSubstr("<td>linear/forward/static</td>"));
  EXPECT_THAT(exported("html", {sample_record()}), Not(HasSubstr("<h3>Kernels")));
}

TEST(Html, CausesThatWereRefusedAreNotShownAndSaySo) {
  Record record = record_with_causes();
  record.profiles[0].refusal = "a trace lost 3 records";
  record.ablation->refusal = "too little memory";
  const std::string page = exported("html", {record});
  EXPECT_THAT(page, HasSubstr("causes of deterministic: a trace lost 3 records"));
  EXPECT_THAT(page, HasSubstr("knobs of deterministic: too little memory"));
  EXPECT_THAT(page, HasSubstr("\"causes\": {}"));
  EXPECT_THAT(page, Not(HasSubstr("<div class=\"chart\" data-chart=\"heat\"")));
}

// --- the map of a fleet

std::vector<Record> three_nodes() {
  std::vector<Record> records(3, sample_record());
  for (size_t i = 0; i < records.size(); ++i) {
    records[i].environment.host = fmt::format("gpu{:02}", i);
    records[i].run_id += records[i].environment.host;
  }
  records[1].arms[0].step_time_seconds = Estimate{0.0246, 0.0245, 0.0247, 8};
  return records;
}

TEST(Html, MapsTheNodesOfAFleetAndMarksWhatAcceptanceNamed) {
  std::vector<Record> records = three_nodes();
  Record verdict;
  verdict.run_id = verdict.suite = "acceptance";
  verdict.case_id = "node:gpu01";
  verdict.verdict = make_verdict("slow_node", "it takes <b>2.00</b> times");
  records.push_back(verdict);
  const std::string page = exported("html", records);
  EXPECT_EQ(refusal_by_consumer("html", page), "");
  const size_t at = page.find("<section id=\"nodes\">");
  ASSERT_NE(at, page.npos);
  EXPECT_LT(at, page.find("<section id=\"tax\">"));
  const std::string section = page.substr(at, page.find("</section>", at) - at);
  EXPECT_THAT(section, HasSubstr("3 nodes, 1 odd."));
  EXPECT_THAT(section,
              HasSubstr("<td class=\"strong\">gpu01</td><td class=\"differ\">odd</td><td "
                        "class=\"number\">1</td><td class=\"number\">2.000</td><td "
                        "class=\"number\">1.016</td><td class=\"number\">1.000</td><td>equal</td>"
                        "<td class=\"word fail\">slow_node</td><td>The node is slower than its "
                        "fleet. it takes &lt;b&gt;2.00&lt;/b&gt;"));
  EXPECT_THAT(section, HasSubstr("<td>gpu02</td><td class=\"differ\"></td>"));
  EXPECT_LT(section.find("gpu01"), section.find("gpu00")) << "odd ones stand in front";
}

TEST(Html, OneNodeHasNoMap) {
  EXPECT_THAT(exported("html", every_verdict()), Not(HasSubstr("id=\"nodes\"")));
}

TEST(Html, EvidenceByScopeNamesWhatDiffers) {
  const std::string page = exported("html", {not_reproducible()});
  const size_t at = page.find("<section id=\"evidence\">");
  const std::string section = page.substr(at, page.find("</section>", at) - at);
  EXPECT_THAT(section, HasSubstr("<td class=\"differ\">differ</td>"));
  EXPECT_THAT(section, HasSubstr("relaunch: step 0, rank 1, backward/layer3/attention"));
}

TEST(Html, VerdictComesFirst) {
  const std::string page = exported("html", every_verdict());
  const size_t body = page.find("<body>");
  EXPECT_LT(page.find("Determinism violated", body), page.find("<section", body));
}

}  // namespace
}  // namespace dettax

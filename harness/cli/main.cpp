#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <vector>

#include "harness/base/error.h"
#include "harness/cli/command.h"

namespace {

using dettax::Command;
using dettax::ExitCode;

std::vector<std::unique_ptr<Command>> commands() {
  std::vector<std::unique_ptr<Command>> table;
  table.push_back(dettax::make_run_command());
  table.push_back(dettax::make_report_command());
  table.push_back(dettax::make_export_command());
  table.push_back(dettax::make_serve_command());
  table.push_back(dettax::make_push_command());
  table.push_back(dettax::make_compare_command());
  table.push_back(dettax::make_diff_command());
  table.push_back(dettax::make_bisect_command());
  table.push_back(dettax::make_verify_command());
  table.push_back(dettax::make_restart_check_command());
  table.push_back(dettax::make_accept_command());
  table.push_back(dettax::make_baseline_command());
  table.push_back(dettax::make_attribute_command());
  table.push_back(dettax::make_list_command());
  table.push_back(dettax::make_log_command());
  table.push_back(dettax::make_project_command());
  table.push_back(dettax::make_decide_command());
  table.push_back(dettax::make_doctor_command());
  table.push_back(dettax::make_worker_command());
  return table;
}

// A result that could not be written must not end as a success.
ExitCode flushed(ExitCode code) {
  if (std::cout.flush()) return code;
  std::cerr << "dettax: the result could not be written to standard output\n";
  return ExitCode::infrastructure;
}

ExitCode run(int argc, const char* const* argv) {
  try {
    const auto table = commands();
    Command* command = dettax::parse_command_line(argc, argv, table, std::cout);
    if (command == nullptr) return flushed(ExitCode::pass);
    return flushed(command->run({std::cout, std::cerr}));
  } catch (const dettax::Error& error) {
    std::cout.flush();
    std::cerr << "dettax: " << error.what() << '\n';
    if (error.kind() == dettax::ErrorKind::internal) {
      std::cerr
          << "dettax: this is a fault of dettax itself; please report it with the line above\n";
    }
    return dettax::exit_code_of(error.kind());
  } catch (const std::filesystem::filesystem_error& error) {
    // What a disk refuses is no fault of dettax.
    std::cerr << "dettax: " << error.path1().string() << ": " << error.code().message() << '\n';
    return ExitCode::infrastructure;
  } catch (const std::exception& error) {
    std::cerr << "dettax: unexpected: " << error.what()
              << "; this is a fault of dettax itself, please report it\n";
    return ExitCode::internal;
  }
}

}  // namespace

int main(int argc, char** argv) { return static_cast<int>(run(argc, argv)); }

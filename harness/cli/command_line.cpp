#include <ostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/cli/command.h"

namespace dettax {
namespace {

// An unset variable of a script must not quietly become "no such setting".
std::string not_empty(const std::string& value) { return value.empty() ? "must not be empty" : ""; }

}  // namespace

void Options::positional(const std::string& name, std::string& value, const std::string& what,
                         bool required) {
  CLI::Option* option = app_.add_option(name, value, what);
  if (required) option->required();
}

void Options::flag(const std::string& names, bool& value, const std::string& what) {
  app_.add_flag(names, value, what);
}

void Options::text(const std::string& names, const std::string& placeholder, std::string& value,
                   const std::string& what) {
  app_.add_option(names, value, what)->type_name(placeholder)->check(not_empty);
}

void Options::texts(const std::string& names, const std::string& placeholder,
                    std::vector<std::string>& values, const std::string& what) {
  app_.add_option(names, values, what)
      ->type_name(placeholder)
      ->allow_extra_args(false)
      ->check(not_empty);
}

void Options::integer(const std::string& names, std::optional<int64_t>& value,
                      const std::string& what) {
  app_.add_option_function<int64_t>(
          names, [&value](const int64_t& given) { value = given; }, what)
      ->type_name("N");
}

void Options::number(const std::string& names, std::optional<double>& value,
                     const std::string& what) {
  app_.add_option_function<double>(
          names, [&value](const double& given) { value = given; }, what)
      ->type_name("X");
}

void Options::choice(const std::string& names, const std::vector<std::string>& words,
                     std::string& value, const std::string& what) {
  app_.add_option(names, value, what)
      ->type_name(join(words, "|"))
      ->check([words](const std::string& given) -> std::string {
        if (std::find(words.begin(), words.end(), given) != words.end()) return {};
        return fmt::format("\"{}\" is none of {}", given, join(words, ", "));
      });
}

namespace {

std::string exit_code_text() {
  std::string text = "Exit codes:\n";
  for (const ExitCodeInfo& info : exit_code_table()) {
    text += fmt::format("  {:>5}  {}\n", static_cast<int>(info.code), info.meaning);
  }
  text += "  128+n  signal n\n";
  text +=
      "With several results: not bit-exact before infrastructure before fail before inconclusive "
      "before pass.\n";
  return text;
}

// "dettax run: --sed was not expected; did you mean "--seed"?"
std::string unexpected_argument(const CLI::App& app, const std::string& argument) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const auto near = nearest(argument, known);
  return fmt::format("\"{}\" was not expected{}; see dettax {} --help", argument,
                     near ? fmt::format("; did you mean \"{}\"?", *near) : "", app.get_name());
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return std::string(trim(text));
}

[[noreturn]] void throw_usage(const CLI::App& app, const CLI::ParseError& error,
                              const std::vector<std::string>& names,
                              const std::vector<std::string>& arguments) {
  const auto chosen = app.get_subcommands();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !chosen.empty()) {
    const auto extras = chosen.front()->remaining();
    if (!extras.empty()) {
      throw Error(ErrorKind::usage, unexpected_argument(*chosen.front(), extras.front()));
    }
  }
  if (chosen.empty() && !arguments.empty()) {
    throw Error(ErrorKind::usage, fmt::format("there is no command \"{}\"{}", arguments.front(),
                                              did_you_mean(arguments.front(), names)));
  }
  if (chosen.empty()) {
    throw Error(ErrorKind::usage,
                fmt::format("which command? known: {}; see dettax --help", join(names, ", ")));
  }
  throw Error(ErrorKind::usage, fmt::format("{}; see dettax {} --help", one_line(error.what()),
                                            chosen.front()->get_name()));
}

}  // namespace

Command* parse_command_line(int argc, const char* const* argv,
                            const std::vector<std::unique_ptr<Command>>& commands,
                            std::ostream& out) {
  CLI::App app("Measures what bitwise-reproducible training costs in throughput, and why.",
               "dettax");
  app.require_subcommand(1);
  app.footer(exit_code_text());
  app.set_version_flag("--version", "dettax " DETTAX_VERSION);
  Command* asked = nullptr;
  std::vector<std::string> names;
  for (const auto& command : commands) {
    CLI::App* sub = app.add_subcommand(command->name(), command->what());
    sub->footer(exit_code_text());
    if (command->hidden()) {
      sub->group("");
    } else {
      names.emplace_back(command->name());
    }
    Options options(*sub);
    command->declare(options);
    sub->callback([&asked, &command] { asked = command.get(); });
  }
  std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::Success& success) {  // help or version
    const auto chosen = app.get_subcommands();
    if (dynamic_cast<const CLI::CallForVersion*>(&success) != nullptr) {
      out << "dettax " << DETTAX_VERSION << '\n';
    } else {
      out << (chosen.empty() ? app.help() : chosen.front()->help());
    }
    return nullptr;
  } catch (const CLI::ParseError& error) {
    throw_usage(app, error, names, arguments);
  }
  return asked;
}

}  // namespace dettax

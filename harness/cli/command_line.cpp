#include <algorithm>
#include <cmath>
#include <ostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/parse_number.h"
#include "harness/base/text.h"
#include "harness/cli/command.h"

namespace dettax {
namespace {

// An unset variable of a script must not quietly become "no such setting".
std::string not_empty(const std::string& value) { return value.empty() ? "must not be empty" : ""; }

// Else a forgotten value would swallow the flag after it.
std::string no_flag(const std::string& value) {
  if (!value.starts_with("-") || value == "-") return "";
  return fmt::format("its value is missing; \"{}\" is a flag (a file of that name is ./{})", value,
                     value);
}

}  // namespace

void Options::positional(const std::string& name, std::string& value, const std::string& what,
                         bool required) {
  CLI::Option* option = app_.add_option(name, value, what)->type_name("")->check(not_empty);
  if (required) option->required();
}

void Options::positionals(const std::string& name, std::vector<std::string>& values,
                          const std::string& what) {
  app_.add_option(name, values, what)->type_name("")->check(not_empty)->required();
}

void Options::flag(const std::string& names, bool& value, const std::string& what) {
  app_.add_flag(names, value, what)->disable_flag_override();
}

void Options::text(const std::string& names, const std::string& placeholder, std::string& value,
                   const std::string& what) {
  app_.add_option(names, value, what)->type_name(placeholder)->check(not_empty)->check(no_flag);
}

void Options::arguments(const std::string& names, const std::string& placeholder,
                        std::string& value, const std::string& what) {
  app_.add_option(names, value, what)->type_name(placeholder)->check(not_empty);
}

void Options::texts(const std::string& names, const std::string& placeholder,
                    std::vector<std::string>& values, const std::string& what) {
  app_.add_option(names, values, what)
      ->type_name(placeholder)
      ->allow_extra_args(false)
      ->check(not_empty)
      ->check(no_flag);
}

void Options::lists(const std::string& names, const std::string& placeholder,
                    std::vector<std::string>& values, const std::string& what) {
  app_.add_option(names, values, what)
      ->type_name(placeholder)
      ->expected(1, -1)
      ->check(not_empty)
      ->check(no_flag);
}

void Options::number(const std::string& names, std::optional<double>& value,
                     const std::string& what, const std::string& example) {
  app_.add_option_function<std::string>(
          names,
          [&value, names, example](const std::string& text) {
            double parsed = 0;
            if (!parse_number(text, parsed) || !std::isfinite(parsed)) {
              throw Error(ErrorKind::usage, fmt::format("{}: \"{}\" is no number; such as {} is",
                                                        names, text, example));
            }
            value = parsed;
          },
          what)
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

// `"--sed" was not expected; did you mean "--seed"?`
std::string unexpected_argument(const CLI::App& app, const std::string& argument) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::string name = argument.substr(0, argument.find('='));
  const auto near = name.starts_with("-") ? nearest(name, known) : std::nullopt;
  return fmt::format("\"{}\" was not expected{}", argument,
                     near ? fmt::format("; did you mean \"{}\"?", *near) : "");
}

// The parser's fault about one option, whose name it begins with.
std::string option_fault(const CLI::App& app, const CLI::ParseError& error) {
  const std::string theirs = error.what();
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return theirs.substr(0, theirs.find(' ')) + " is missing";
  // A flag that was given a value is named without its dashes, and no colon follows.
  const size_t colon = theirs.find(':');
  const std::string name = colon == std::string::npos ? "--" + theirs.substr(0, theirs.find(' '))
                                                      : theirs.substr(0, colon);
  const CLI::Option* option = app.get_option_no_throw(name);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr || option == nullptr) {
    // Our own checks' words.
    std::string line = theirs;
    std::replace(line.begin(), line.end(), '\n', ' ');
    return std::string(trim(line));
  }
  if (option->get_items_expected_max() == 0) return name + ": takes no value";
  if (option->count() > 1) return name + ": is given twice";
  return fmt::format("{}: its value is missing ({})", name, option->get_type_name());
}

[[noreturn]] void fail(const std::string& what, const std::string& command) {
  throw Error(ErrorKind::usage, fmt::format("{}; see dettax {}--help", what, command));
}

// Arguments end in records, which are UTF-8, and name the files of a run.
void require_utf8(const std::string& argument) {
  const auto bad = first_bad_utf8(argument);
  if (!bad) return;
  fail(fmt::format("the argument that begins with \"{}\" is no UTF-8 (byte 0x{:02x}); names of "
                   "files and all else must be",
                   argument.substr(0, *bad), static_cast<uint8_t>(argument[*bad])),
       "");
}

[[noreturn]] void throw_usage(const CLI::App& app, const CLI::ParseError& error,
                              const std::vector<std::string>& names,
                              const std::vector<std::string>& arguments) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty() && arguments.empty())
    fail(fmt::format("which command? known: {}", join(names, ", ")), "");
  if (chosen.empty() && arguments.front().starts_with("-"))
    fail(unexpected_argument(app, arguments.front()), "");
  if (chosen.empty()) {
    throw Error(ErrorKind::usage, fmt::format("there is no command \"{}\"{}", arguments.front(),
                                              did_you_mean(arguments.front(), names)));
  }
  const CLI::App& sub = *chosen.front();
  const auto extras = sub.remaining();
  const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !extras.empty();
  fail(extra ? unexpected_argument(sub, extras.front()) : option_fault(sub, error),
       sub.get_name() + " ");
}

}  // namespace

Command* parse_command_line(int argc, const char* const* argv,
                            const std::vector<std::unique_ptr<Command>>& commands,
                            std::ostream& out) {
  CLI::App app("Measures what bitwise-reproducible training costs in throughput, and why.",
               "dettax");
  app.require_subcommand(1);
  app.footer(
      "Begin with:\n"
      "  dettax doctor                what this machine and this build can do\n"
      "  dettax run quick --dry-run   what a run would do; starts nothing\n"
      "  dettax run quick             the smallest suite that says something\n\n" +
      exit_code_text());
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
  for (const std::string& argument : arguments) require_utf8(argument);
  if (!arguments.empty() && arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::Success& success) {  // help or version
    if (dynamic_cast<const CLI::CallForVersion*>(&success) != nullptr) {
      out << "dettax " << DETTAX_VERSION << '\n';
    } else {
      out << app.help();  // of the command chosen, if there is one
    }
    return nullptr;
  } catch (const CLI::ParseError& error) {
    throw_usage(app, error, names, arguments);
  }
  return asked;
}

}  // namespace dettax

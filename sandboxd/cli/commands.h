#ifndef SANDBOXD_CLI_COMMANDS_H_
#define SANDBOXD_CLI_COMMANDS_H_

#include <string>
#include <vector>

namespace sandboxd::cli {

// What the command line said; each command uses its part.
struct Options {
  std::string socket;
  std::string output = "table";  // table or json
  bool quiet = false;
  std::string image;
  std::string name;
  std::string hostname;
  std::string user;
  std::string cwd;
  std::string profile;
  std::string timeout;
  std::string grace;
  std::string key;
  std::vector<std::string> env;
  std::vector<std::string> labels;
  std::vector<std::string> tmpfs;  // PATH[:BYTES]
  std::string id;
  std::vector<std::string> ids;  // Of kill.
  std::vector<std::string> command;
  bool read_only = false;
  bool interactive = false;
  bool remove = false;
  bool all = false;
  long long after = -1;
};

// Each returns the program's exit code.
int Create(const Options& options);
int Run(const Options& options);
int Exec(const Options& options);
int List(const Options& options);
int Info(const Options& options);
int Report(const Options& options);  // 1 where a layer of the profile is not in force.
int Kill(const Options& options);
int Wait(const Options& options);
int Events(const Options& options);
int Version(const Options& options);

}  // namespace sandboxd::cli

#endif  // SANDBOXD_CLI_COMMANDS_H_

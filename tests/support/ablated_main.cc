// ablated_sandboxd: the daemon, without one layer of isolation. For tests that show that the
// layer's absence is noticed; never installed.
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "policy/profile.h"
#include "sandboxd/server/serve.h"

int main(int argc, char** argv) {
  using sandboxd::AllLayers;
  using sandboxd::Layer;
  using sandboxd::LayerName;
  CLI::App app("sandboxd with a layer of isolation left out. For tests only.", "ablated_sandboxd");
  std::string path;
  std::string without;
  bool list = false;
  app.add_option("--config", path, "Configuration file");
  app.add_option("--without", without, "The layer to leave out; none: all are in force");
  app.add_flag("--list", list, "Print the layers and exit");
  CLI11_PARSE(app, argc, argv);
  sandboxd::LayerSet layers = sandboxd::LayerSet::All();
  bool known = without.empty();
  for (const Layer layer : AllLayers()) {
    const std::string name(LayerName(layer));
    if (list) puts(name.c_str());
    if (name != without) continue;
    layers = layers.Without(layer);
    known = true;
  }
  if (list) return 0;
  if (!known) {
    fprintf(stderr, "ablated_sandboxd: no layer %s\n", without.c_str());
    return 2;
  }
  return sandboxd::server::Serve(path, layers);
}

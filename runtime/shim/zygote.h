#ifndef SANDBOXD_RUNTIME_SHIM_ZYGOTE_H_
#define SANDBOXD_RUNTIME_SHIM_ZYGOTE_H_

namespace sandboxd::shim {

// The resident process that forks shims. `link` is its socket to the daemon; `scratch` an existing
// directory to build its private root on, whose name is wiped then. Serves Spawn until the daemon
// closes the link; shims do not notice its end. Returns the exit code: 0, or 1 with a line on
// standard error where the private root could not be made.
int RunZygote(int link, char* scratch);

// Paths of the zygote's private root, which shims and inits share copies of.
inline constexpr char kTemplateDev[] = "/template/dev";
inline constexpr char kTemplateNull[] = "/template/dev/null";
inline constexpr char kTemplateEmpty[] = "/template/empty";
inline constexpr char kStageDir[] = "/stage";
inline constexpr char kStageRoot[] = "/stage/root";
inline constexpr char kWorkUpper[] = "/work/upper";
inline constexpr char kWorkLayer[] = "/work/layer";
inline constexpr char kWorkRoot[] = "/work/root";

}  // namespace sandboxd::shim

#endif  // SANDBOXD_RUNTIME_SHIM_ZYGOTE_H_

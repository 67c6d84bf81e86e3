#ifndef SANDBOXD_VERSION_H_
#define SANDBOXD_VERSION_H_

namespace sandboxd {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace sandboxd

#endif  // SANDBOXD_VERSION_H_

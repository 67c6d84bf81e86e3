#include "sandboxd/wire/error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/status.h"

namespace sandboxd::wire {
namespace {

using absl::StatusCode;
using nlohmann::json;

TEST(ErrorTest, EveryPartOfAStatusRoundTrips) {
  const absl::Status status =
      WithDetail(absl::FailedPreconditionError("mounting /proc: Operation not permitted"),
                 {.reason = "LAUNCH_FAILED",
                  .object = "sandbox 4f",
                  .stage = "mount /proc",
                  .error = "EPERM"});

  const json body = ErrorBody(status);

  EXPECT_EQ(body, (json{{"code", "FAILED_PRECONDITION"},
                        {"reason", "LAUNCH_FAILED"},
                        {"object", "sandbox 4f"},
                        {"message", "mounting /proc: Operation not permitted"},
                        {"stage", "mount /proc"},
                        {"errno", "EPERM"}}));
  EXPECT_EQ(StatusFromBody(body), status);
}

TEST(ErrorTest, EmptyPartsAreLeftOut) {
  const json body = ErrorBody(ReasonError(StatusCode::kNotFound, "SANDBOX_NOT_FOUND", "", "no"));

  EXPECT_EQ(body.size(), 3u);
}

TEST(ErrorTest, EveryCodeOfTheSpecificationRoundTrips) {
  for (const StatusCode code :
       {StatusCode::kInvalidArgument, StatusCode::kNotFound, StatusCode::kAlreadyExists,
        StatusCode::kPermissionDenied, StatusCode::kResourceExhausted,
        StatusCode::kFailedPrecondition, StatusCode::kAborted, StatusCode::kUnavailable,
        StatusCode::kCancelled, StatusCode::kDeadlineExceeded, StatusCode::kInternal,
        StatusCode::kUnimplemented}) {
    const absl::Status status = ReasonError(code, "R", "o", "m");
    EXPECT_EQ(StatusFromBody(ErrorBody(status)), status);
  }
}

TEST(ErrorTest, CodesThatTheSpecificationDoesNotNameBecomeTheNearest) {
  const auto code = [](StatusCode from) {
    return ErrorBody(ReasonError(from, "R", "", ""))["code"];
  };

  EXPECT_EQ(code(StatusCode::kOutOfRange), "INVALID_ARGUMENT");
  EXPECT_EQ(code(StatusCode::kUnauthenticated), "PERMISSION_DENIED");
  EXPECT_EQ(code(StatusCode::kDataLoss), "INTERNAL");
  EXPECT_EQ(code(StatusCode::kUnknown), "INTERNAL");
}

TEST(ErrorTest, AStatusWithoutReasonGetsOneThatPromisesNoMoreThanIsKnown) {
  const auto both = [](const absl::Status& status) {
    const json body = ErrorBody(status);
    return body["code"].get<std::string>() + " " + body["reason"].get<std::string>();
  };

  EXPECT_EQ(both(absl::InvalidArgumentError("x")), "INVALID_ARGUMENT INVALID_FIELD");
  EXPECT_EQ(both(absl::UnimplementedError("x")), "UNIMPLEMENTED UNKNOWN_OPERATION");
  EXPECT_EQ(both(absl::CancelledError("x")), "CANCELLED CANCELLED");
  EXPECT_EQ(both(absl::NotFoundError("x")), "INTERNAL INTERNAL");
  EXPECT_EQ(both(absl::OkStatus()), "INTERNAL INTERNAL");
  // The errno of a file of ours must not look like an answer about what was asked for.
  EXPECT_EQ(both(ErrnoError(ENOENT, "opening /x")), "INTERNAL INTERNAL");
  EXPECT_EQ(both(ErrnoError(EINVAL, "mounting /x")), "INTERNAL INTERNAL");
  EXPECT_EQ(both(WithDetail(ErrnoError(EINVAL, "mounting /x"), {.stage = "mount"})),
            "FAILED_PRECONDITION LAUNCH_FAILED");
}

TEST(ErrorTest, ABodyOfALaterVersionOrOfAnyShapeIsStillAnError) {
  EXPECT_EQ(StatusFromBody({{"code", "LATER"}, {"reason", "NEW"}}).code(), StatusCode::kUnknown);
  EXPECT_EQ(DetailOf(StatusFromBody({{"code", "LATER"}, {"reason", "NEW"}})).reason, "NEW");
  EXPECT_FALSE(StatusFromBody(json::object()).ok());
  EXPECT_FALSE(StatusFromBody({{"code", "OK"}}).ok());
  EXPECT_FALSE(StatusFromBody({{"code", 5}, {"message", {1, 2}}}).ok());
}

}  // namespace
}  // namespace sandboxd::wire

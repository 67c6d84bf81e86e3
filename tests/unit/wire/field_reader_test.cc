#include "sandboxd/wire/field_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd::wire {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// "REASON object" of what Finish() says; "" where it is OK.
std::string Verdict(const FieldReader& reader) {
  const absl::Status status = reader.Finish();
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return absl::StrCat(DetailOf(status).reason, " ", DetailOf(status).object);
}

TEST(FieldReaderTest, ReadsEveryType) {
  const json params = {{"image", "host"},
                       {"cwd", {{"base64", "L/8="}}},
                       {"argv", {"a", "b"}},
                       {"n", 7},
                       {"on", true},
                       {"stdin", "pipe"},
                       {"labels", {{"k", "v"}}},
                       {"tags", {"x"}}};

  FieldReader reader(params, "params");

  EXPECT_EQ(reader.RequiredString("image"), "host");
  EXPECT_EQ(reader.RequiredBytes("cwd"), "/\xff");
  EXPECT_THAT(reader.RequiredBytesList("argv"), ElementsAre("a", "b"));
  EXPECT_EQ(reader.RequiredInteger("n", 0, 7), 7);
  EXPECT_TRUE(reader.Bool("on", false));
  EXPECT_EQ(reader.Enum("stdin", 0, {{"none", 0}, {"pipe", 1}}), 1);
  EXPECT_THAT(reader.StringMap("labels", 1, 1, 1), ElementsAre(Pair("k", "v")));
  EXPECT_THAT(reader.StringList("tags"), ElementsAre("x"));
  EXPECT_EQ(Verdict(reader), "");
}

TEST(FieldReaderTest, FallbacksStandForWhatIsMissingOrNull) {
  const json params = {{"cwd", nullptr}, {"n", nullptr}};

  FieldReader reader(params, "params");

  EXPECT_EQ(reader.Bytes("cwd", "/"), "/");
  EXPECT_EQ(reader.String("user", "0"), "0");
  EXPECT_EQ(reader.Integer("n", 5, 0, 9), 5);
  EXPECT_EQ(reader.OptionalInteger("m", 0, 9), std::nullopt);
  EXPECT_EQ(reader.Enum("stdin", 3, {{"none", 0}}), 3);
  EXPECT_TRUE(reader.BytesList("argv").empty());
  EXPECT_EQ(reader.Value("tmpfs"), nullptr);
  EXPECT_FALSE(reader.Has("cwd"));
  EXPECT_EQ(Verdict(reader), "");
}

TEST(FieldReaderTest, RequiredFieldsThatAreMissingAreNamed) {
  const json params = {{"image", nullptr}};
  for (const auto& [name, read] :
       std::vector<std::pair<std::string, std::function<void(FieldReader&)>>>{
           {"image", [](FieldReader& r) { r.RequiredString("image"); }},
           {"path", [](FieldReader& r) { r.RequiredBytes("path"); }},
           {"argv", [](FieldReader& r) { r.RequiredBytesList("argv"); }},
           {"n", [](FieldReader& r) { r.RequiredInteger("n", 0, 1); }}}) {
    FieldReader reader(params, "params");
    read(reader);
    EXPECT_EQ(Verdict(reader), absl::StrCat("MISSING_FIELD params.", name));
  }
}

TEST(FieldReaderTest, WrongTypesAreNamed) {
  const json params = {{"x", json::object()}};
  for (const auto& read : std::vector<std::function<void(FieldReader&)>>{
           [](FieldReader& r) { r.String("x"); }, [](FieldReader& r) { r.Bytes("x"); },
           [](FieldReader& r) { r.BytesList("x"); }, [](FieldReader& r) { r.StringList("x"); },
           [](FieldReader& r) { r.Integer("x", 0, 0, 9); },
           [](FieldReader& r) { r.OptionalInteger("x", 0, 9); },
           [](FieldReader& r) { r.Bool("x", false); },
           [](FieldReader& r) {
             r.Enum("x", 0, {{"none", 0}});
           }}) {
    FieldReader reader(params, "params");
    read(reader);
    EXPECT_EQ(Verdict(reader), "INVALID_FIELD params.x");
  }
}

TEST(FieldReaderTest, IntegersKeepToTheirRange) {
  for (const json& value : {json(0), json(11), json(-1), json(1.5), json("5"), json(true),
                            json(18446744073709551615u)}) {
    const json params = {{"n", value}};
    FieldReader reader(params, "params");
    reader.RequiredInteger("n", 1, 10);
    EXPECT_EQ(Verdict(reader), "INVALID_FIELD params.n") << value;
    EXPECT_THAT(std::string(reader.Finish().message()), HasSubstr("from 1 to 10"));
  }
}

TEST(FieldReaderTest, ElementsOfListsAndMapsAreNamed) {
  const json params = {{"argv", {"a", 5}},
                       {"env", {"A=B", std::string("C=\0", 3)}},
                       {"labels", {{"k", std::string("\0", 1)}}}};

  FieldReader argv(params, "params");
  argv.BytesList("argv");
  EXPECT_EQ(Verdict(argv), "INVALID_FIELD params.argv[1]");

  FieldReader env(params, "params");
  env.BytesList("env");
  EXPECT_EQ(Verdict(env), "EMBEDDED_NUL params.env[1]");

  FieldReader labels(params, "params");
  labels.StringMap("labels", 9, 9, 9);
  EXPECT_EQ(Verdict(labels), "EMBEDDED_NUL params.labels.k");
}

TEST(FieldReaderTest, MapsKeepToTheirBounds) {
  const json params = {{"labels", {{"key", "value"}, {"more", "value"}}}};
  const auto verdict = [&](size_t entries, size_t key, size_t value) {
    FieldReader reader(params, "params");
    reader.StringMap("labels", entries, key, value);
    return Verdict(reader);
  };

  EXPECT_EQ(verdict(2, 4, 5), "");
  EXPECT_EQ(verdict(1, 4, 5), "INVALID_FIELD params.labels");
  EXPECT_EQ(verdict(2, 3, 5), "INVALID_FIELD params.labels");
  EXPECT_EQ(verdict(2, 4, 4), "INVALID_FIELD params.labels.key");
}

TEST(FieldReaderTest, ARequiredListMayNotBeEmpty) {
  const json params = {{"argv", json::array()}};
  FieldReader reader(params, "params");

  reader.RequiredBytesList("argv");

  EXPECT_EQ(Verdict(reader), "INVALID_FIELD params.argv");
}

TEST(FieldReaderTest, NulInTextIsEmbeddedNul) {
  const json params = {{"user", std::string("a\0b", 3)}};
  FieldReader reader(params, "params");

  EXPECT_EQ(reader.String("user", "0"), "0");

  EXPECT_EQ(Verdict(reader), "EMBEDDED_NUL params.user");
}

TEST(FieldReaderTest, TheFirstErrorIsKept) {
  const json params = {{"a", 1}, {"b", 1}, {"c", 1}};
  FieldReader reader(params, "params");

  reader.String("b");
  reader.String("a");
  reader.Fail("c", "is not liked");

  EXPECT_EQ(Verdict(reader), "INVALID_FIELD params.b");
}

TEST(FieldReaderTest, UnknownFieldsAreRefusedAndTheKnownOnesTold) {
  const json params = {{"image", "host"}, {"imgae", "host"}};
  FieldReader reader(params, "params.tmpfs[0]");
  reader.String("image");
  reader.String("cwd");

  EXPECT_EQ(Verdict(reader), "UNKNOWN_FIELD params.tmpfs[0].imgae");
  EXPECT_THAT(std::string(reader.Finish().message()), HasSubstr("known are cwd, image"));
}

TEST(FieldReaderTest, ALongUnknownKeyIsNotGivenBackWhole) {
  const json params = {{std::string(100000, 'x'), 1}};
  FieldReader reader(params, "params");

  EXPECT_LT(reader.Finish().message().size(), 300u);
}

TEST(FieldReaderTest, WhatIsNotAnObjectIsInvalidAndEveryGetterStillAnswers) {
  const json params = json::array({1});
  FieldReader reader(params, "params");

  EXPECT_EQ(reader.RequiredString("image"), "");
  EXPECT_EQ(reader.Integer("n", 4, 0, 9), 4);

  EXPECT_EQ(Verdict(reader), "INVALID_FIELD params");
}

}  // namespace
}  // namespace sandboxd::wire

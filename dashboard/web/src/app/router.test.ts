import { describe, expect, it } from "vitest";
import { match, navigate, path, query, setQuery, to, type Route } from "./router";

const route = (p: string): Route => ({ path: p, title: () => p, load: () => Promise.reject(new Error("not loaded")) });
const table = [route("/"), route("/members"), route("/miniclusters/:namespace/:name")];

describe("match", () => {
  it.each<[string, string | undefined, object?]>([
    ["/", "/"], ["/members/", "/members"], ["/nowhere", undefined],
    ["/miniclusters/physics/hpcg", "/miniclusters/:namespace/:name", { namespace: "physics", name: "hpcg" }],
    ["/miniclusters/a%2Fb/%3Cimg%3E", "/miniclusters/:namespace/:name", { namespace: "a/b", name: "<img>" }],
    ["/miniclusters/physics", undefined], ["/miniclusters/physics/%E0%A4%A", undefined],
  ])("%s", (p, want, params = {}) => {
    const found = match(table, p);
    expect(found?.route.path).toBe(want);
    if (found) expect(found.params).toEqual(params);
  });
  it("encodes parts of a path", () => expect(to("miniclusters", "a/b", "c d?")).toBe("/miniclusters/a%2Fb/c%20d%3F"));
});

describe("the URL", () => {
  it("holds parameters with several values", () => {
    navigate("/?q=hpcg");
    setQuery({ state: ["Failed", "Waiting"] });
    expect([path.value, query.value.get("q"), query.value.getAll("state")]).toEqual(["/", "hpcg", ["Failed", "Waiting"]]);
    setQuery({ q: null, state: [] }, { replace: true });
    expect(location.search).toBe("");
  });
  it("never goes to another origin", () => {
    navigate("/members");
    navigate("https://evil.example/");
    expect(path.value).toBe("/members");
  });
});

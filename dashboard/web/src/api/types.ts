// Short names for what the API sends; schema.d.ts is generated from ../../../openapi.json.
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Row = Schemas["Row"];
export type Rows = Schemas["Rows"];
export type Facets = Schemas["Facets"];
export type Count = Schemas["Count"];
export type Change = Schemas["Change"];
export type Summary = Schemas["Summary"];
export type Session = Schemas["Session"];
export type MiniCluster = Schemas["MiniCluster"];
export type Run = Schemas["Run"];
export type Commit = Schemas["Commit"];
export type Start = Schemas["Start"];
export type Action = Schemas["Action"];
export type TreeNode = Schemas["TreeNode"];
export type Event = Schemas["Event"];
export type Difference = Schemas["Difference"];
export type Done = Schemas["Done"];
export type Room = Schemas["Room"];
export type Ref = Schemas["Ref"];
export type LogLine = Schemas["LogLine"];
export type Problem = Schemas["ErrorModel"];

/** What GET /api/v1/login-methods answers, and that without a session. */
export interface LoginMethods {
  token: boolean;
  /** Whether there is an OIDC provider to log in through, at /auth/login?next=PATH. */
  oidc: boolean;
  oidcName: string;
}
export type Grid = Schemas["Grid"];
export type GridRow = Schemas["GridRow"];
export type Timeline = Schemas["Timeline"];
export type Lane = Schemas["Lane"];
export type Bar = Schemas["Bar"];
export type Line = Schemas["Line"];
export type Place = Schemas["Place"];
export type Queue = Schemas["Queue"];
export type Amount = Schemas["Amount"];
export type Why = Schemas["Why"];
export type GangFit = Schemas["GangFit"];
export type NodeFit = Schemas["NodeFit"];
export type Member = Schemas["Member"];
export type MemberDetail = Schemas["MemberDetail"];
export type Node = Schemas["Node"];
export type Taint = Schemas["Taint"];
export type Source = Schemas["Source"];
export type AppliedCommit = Schemas["AppliedCommit"];
export type PlannedChange = Schemas["PlannedChange"];
export type SourceDetail = Schemas["SourceDetail"];
export type FileProblem = Schemas["Problem"];

// Package auth says who asks the dashboard's HTTP server, and what they may see.
//
// The hub's API server decides both: a TokenReview says who bears a token, a SubjectAccessReview what they may do. Answers
// are kept for seconds. No answer is never access: it is 503, or a denial.
//
//	Protect        outermost: headers, other origins, sizes, rates, panics
//	Authenticate   a bearer token, or the cookie of a session; From has the Person
//	Routes         log in with a token or through an OIDC issuer, log out
//	Allowed, Scope what a person may do, and in which namespaces
//	Recheck        for streams: whether all this still holds
//
// Sessions are in the memory of this process, under the hash of a random id that only the browser's cookie has. Their
// tokens are sent to the hub's API server and nowhere else: no answer, error or log has one.
package auth

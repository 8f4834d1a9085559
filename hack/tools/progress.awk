# Turns the names that `go build -v` prints into a line now and then, so that a build of minutes is seen
# to go on. What is no package name, such as an error, is printed as it is.
BEGIN { every = 100 }
/^go: downloading / { fetched++; if (fetched % every == 1) report("downloaded " fetched " modules, now " $3); next }
/^[^ #]+$/ { built++; if (built % every == 0) report("compiled " built " packages, now " $1); next }
{ print; fflush() }
END { if (built) report("compiled " built " packages") }
function report(text) { print "  " what ": " text; fflush() }

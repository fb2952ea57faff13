#include "api/cli/help_text.h"

namespace svcmap::api {

const char kProgramDescription[] =
    "Talks to a svcmap agent (svcmapd): sends it objects, and shows what it holds and does.";

const char kProgramFooter[] = R"(Examples:
  svcmapctl apply -f deploy/examples/        send every manifest of a directory
  svcmapctl get svc                          the Services the agent holds
  svcmapctl status                           what the agent is doing
  svcmapctl dump applied                     what the kernel confirmed, in nft syntax
  svcmapctl wait --for serving               until traffic is served
  svcmapctl COMMAND --help                   more about one command

Exit codes:
  0  done
  1  some objects were refused or not found, or some files could not be read; the rest is done
  2  the command line is wrong; nothing was done
  3  cannot reach the agent, or it did not answer
  4  the agent refused the call as a whole
  5  wait: not so within the timeout
  6  the kernel did not take the change; the agent holds it and keeps trying)";

const char kApplyFooter[] =
    R"(Reads Service, EndpointSlice, Node, ServiceCIDR and List manifests, also several in one file.
All objects go to the agent in one request and become visible to traffic at once. What cannot be
read, and what the agent refuses, is reported and left out; exit code 1 then. With --prune they go
as a snapshot: first what is new or changed becomes visible, then the rest is removed.

Examples:
  svcmapctl apply -f web.yaml -f web-endpoints.yaml
  kubectl get svc,endpointslices -A -o yaml | svcmapctl apply -f -
  svcmapctl apply --strict -f manifests/     all files are good, or nothing is sent
  svcmapctl apply --prune -f manifests/      the agent holds exactly these afterwards)";

const char kDeleteFooter[] = R"(Removing an object that the agent does not hold is no error.

Examples:
  svcmapctl delete service shop/web shop/api
  svcmapctl delete svc -n shop web api
  svcmapctl delete -f web.yaml               every object the file names)";

const char kGetFooter[] =
    R"(Shows objects as they were sent, of every namespace unless told otherwise.

Examples:
  svcmapctl get services
  svcmapctl get eps -n shop
  svcmapctl get svc shop/web -o yaml         "-o json|yaml" can be applied again)";

const char kStatusFooter[] = R"(Examples:
  svcmapctl status
  svcmapctl status -o json | jq .revision)";

const char kDumpFooter[] = R"(desired  what the agent wants the kernel to have
applied  what the kernel confirmed
plan     the transaction that leads from applied to desired; empty when they are equal

Examples:
  svcmapctl dump applied | grep shop/web
  svcmapctl dump plan                        what is still to be written)";

const char kWaitFooter[] = R"(serving     the agent has a complete state and keeps the kernel at it
controller  a controller is connected
revision=N  the agent's state has revision N or a later one
An agent that is not up yet is waited for, too.

Examples:
  svcmapctl wait
  svcmapctl wait --for revision=12 --timeout 5s)";

}  // namespace svcmap::api

#include "api/cli/help_text.h"

namespace svcmap::api {

const char kProgramDescription[] =
    "Talks to a svcmap agent (svcmapd): sends it objects, and shows what it holds and does.";

const char kProgramFooter[] = R"(Examples:
  svcmapctl apply -f deploy/examples/        send every manifest of a directory
  svcmapctl get svc                          the Services the agent holds
  svcmapctl status                           what the agent is doing
  svcmapctl dump applied                     what the kernel confirmed, in nft syntax
  svcmapctl explain 10.96.0.10:80            what happens to a packet, and why
  svcmapctl wait --for serving               until traffic is served
  svcmapctl watch                            what happens at the agent, as it happens
  svcmapctl migrate check                    what kube-proxy left here, what is in the way
  svcmapctl COMMAND --help                   more about one command

Exit codes:
  0  done
  1  some objects were refused or not found, or some files could not be read; the rest is done
  2  the command line is wrong; nothing was done
  3  cannot reach the agent, or it did not answer
  4  the agent refused the call as a whole
  5  wait: not so within the timeout
  6  the kernel did not take the change; the agent holds it and keeps trying
  7  explain: the kernel is not as the agent wants it, or could not be read
  8  migrate check: something on this node needs attention)";

const char kApplyFooter[] =
    R"(Reads Service, EndpointSlice, Node, ServiceCIDR and List manifests, also several in one file.
All objects go to the agent in one request and become visible to traffic at once. What cannot be
read, and what the agent refuses, is reported and left out; exit code 1 then. With --prune they go
as a snapshot: first what is new or changed becomes visible, then the rest is removed.

Examples:
  svcmapctl apply -f web.yaml -f web-endpoints.yaml
  kubectl get svc,endpointslices -A -o yaml | svcmapctl apply -f -
  svcmapctl apply --strict -f manifests/     all files are good, or nothing is sent
  svcmapctl apply --prune -f manifests/      the agent holds exactly these afterwards
  svcmapctl apply --dry-run -f web.yaml      what would change in the kernel, element by element)";

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
  svcmapctl get svc shop/web -o yaml         "-o json|yaml" can be applied again
  svcmapctl get svc -o wide                  with kube-proxy's chain names, for iptables mode)";

const char kStatusFooter[] = R"(Examples:
  svcmapctl status
  svcmapctl status -o json | jq .revision)";

const char kDumpFooter[] = R"(desired  what the agent wants the kernel to have
applied  what the kernel confirmed
plan     the transaction that leads from applied to desired; empty when they are equal

Examples:
  svcmapctl dump applied | grep shop/web
  svcmapctl dump plan                        what is still to be written)";

const char kExplainFooter[] =
    R"(Says what happens to the first packet of a connection, step by step, from what the agent wants, and
whether the elements in the kernel agree. Later packets of a connection follow its first one. Without
--from each kind of source is explained. In brackets stand numbers of the behaviour specification.
KUBE-... are the names of kube-proxy's iptables mode; nothing has these names here.

Examples:
  svcmapctl explain 10.96.0.10:80
  svcmapctl explain 10.96.0.10:53/UDP --from 10.244.1.5
  svcmapctl explain 192.0.2.10:30080 --from node
  svcmapctl explain [fd00:96::10]:80 --in-interface cni0
                                             where pods are recognised by their interface)";

const char kWaitFooter[] = R"(serving     the agent has a complete state and keeps the kernel at it
controller  a controller is connected
revision=N  the agent's state has revision N or a later one
An agent that is not up yet is waited for, too.

Examples:
  svcmapctl wait
  svcmapctl wait --for revision=12 --timeout 5s)";

const char kWatchFooter[] =
    R"(First the agent's state, then one line for each thing that happens: commits, findings, repairs,
failures and controllers that come and go. Ends when it is interrupted (exit code as of any program),
or with 3 when the agent goes away. JSON is one object per line, as control.proto's WatchEvent.

Examples:
  svcmapctl watch
  svcmapctl watch -o json | jq -c 'select(.repair)')";

const char kMigrateFooter[] =
    R"(check  looks at this node, as root, and says what stands between it and svcmap: rules of kube-proxy
       in nf_tables and in both flavours of iptables, other owners of Service addresses, a kernel
       that lacks something, firewalls that drop forwarded packets by default. Changes nothing.
It asks no agent, but svcmapd, found beside svcmapctl or in PATH, and iptables-...-save.

Examples:
  svcmapctl migrate check
  svcmapctl migrate check -o json | jq -r '.findings[] | select(.level == "attention").what')";

}  // namespace svcmap::api

// Descriptions and examples that --help prints.
#pragma once

namespace svcmap::api {

inline constexpr char kProgramDescription[] =
    "Controls a svcmap agent (svcmapd): sends objects to it and shows its state.";

inline constexpr char kProgramFooter[] = R"(Examples:
  svcmapctl apply -f deploy/examples/        apply all manifests of a directory
  svcmapctl get svc                          list the Services that the agent stores
  svcmapctl status                           show the agent's status
  svcmapctl dump applied                     print the ruleset in the kernel, in nft syntax
  svcmapctl explain 10.96.0.10:80            explain how a connection is handled
  svcmapctl wait --for serving               wait until the agent is serving
  svcmapctl watch                            print events as they happen
  svcmapctl check                            connect to all Services and explain differences
  svcmapctl top                              show new connections per second by Service
  svcmapctl support-bundle                   collect facts for support in a file
  svcmapctl fleet status ...                 count the nodes of a fleet on etcd by state
  svcmapctl migrate check                    look for leftovers of kube-proxy and other conflicts
  svcmapctl COMMAND --help                   show the help of a command

Exit codes:
  0  success
  1  some objects were rejected or not found, or some files not read; or fleet wait timed out
  2  invalid command line; nothing was done
  3  cannot reach the agent, or no response
  4  the agent rejected the complete request
  5  wait: the condition was not met before the timeout
  6  the kernel rejected the change; the agent stores the change and retries
  7  explain: the kernel state differs from the desired state, or could not be read
  8  migrate check: at least one finding needs attention
  9  check: at least one connection differs from the prediction
  10 the agent stores the change, but programs nothing until it has received a complete state)";

inline constexpr char kApplyFooter[] =
    R"(Accepts Service, EndpointSlice, Node, ServiceCIDR and List manifests in YAML or JSON.
A file may contain several documents.
All objects are sent in one request and take effect atomically.
Unreadable documents and rejected objects are reported and skipped. The exit code is then 1.

With --prune, the manifests replace the complete state of the agent.
New and changed objects take effect first. All other objects are then deleted.
Nothing is sent if an object cannot be read, if its kind or a field is unknown, if there are no
objects (except with --allow-empty), or if a controller is connected (except with --force).
If most objects would be deleted, the agent holds the deletions until "svcmapctl accept-snapshot",
except with --allow-empty.

Examples:
  svcmapctl apply -f web.yaml -f web-endpoints.yaml
  kubectl get svc,endpointslices -A -o yaml | svcmapctl apply -f -
  svcmapctl apply --strict -f manifests/     send nothing if a manifest is not valid
  svcmapctl apply --prune -f manifests/      delete all objects that are not in the manifests
  svcmapctl apply --prune --dry-run -f manifests/
                                             show what --prune would change and delete
  svcmapctl apply --dry-run -f web.yaml      show the kernel elements that would change)";

inline constexpr char kDeleteFooter[] =
    R"(If an object does not exist, svcmapctl deletes the other objects and exits with code 1, unless
--ignore-not-found is set.

Examples:
  svcmapctl delete service shop/web shop/api
  svcmapctl delete svc -n shop web api
  svcmapctl delete -f web.yaml               delete all objects named in the file)";

inline constexpr char kAcceptSnapshotFooter[] =
    R"(The agent holds the removals of a snapshot that would remove most objects, because the
controller may have sent an incomplete list. "svcmapctl status" shows how many objects would be
removed. Check the controller first. To discard the snapshot instead, restart the controller.

Examples:
  svcmapctl accept-snapshot)";

inline constexpr char kGetFooter[] =
    R"(Shows the objects as the agent received them.
Without NAME and --namespace, shows the objects of all namespaces.
NAME without a namespace is in the namespace "default", as in manifests and in kubectl.
READY is the number of ready endpoints with a valid address and the number of all endpoints.

Examples:
  svcmapctl get services
  svcmapctl get svc,eps -n shop              list objects of two kinds
  svcmapctl get svc shop/web -o yaml         print a manifest that "svcmapctl apply" accepts
  svcmapctl get svc -A -o wide               print all addresses, ports and endpoints, and the
                                             chain names of kube-proxy's iptables mode)";

inline constexpr char kStatusFooter[] =
    R"(On a terminal, svcmapctl prints as many findings as fit on the screen, without stages and maps,
unless --verbose is set. Output to files and pipes is complete.

Examples:
  svcmapctl status
  svcmapctl status --verbose                 also print stages, maps and all findings
  svcmapctl status -o json | jq .revision)";

inline constexpr char kDumpFooter[] = R"(desired  the ruleset computed from the stored objects
applied  the ruleset that the kernel has confirmed
plan     the transaction from applied to desired; empty if both are equal

Examples:
  svcmapctl dump applied | grep shop/web
  svcmapctl dump plan                        print the changes that are not yet committed)";

inline constexpr char kExplainFooter[] =
    R"(Explains how the first packet of a connection is handled, based on the desired state.
Checks that the map elements in the kernel match the desired state.
Later packets of a connection are handled like the first packet.
Without --from, svcmapctl explains each kind of source: pods, the node, and other sources.
On a terminal, svcmapctl omits steps with details, and endpoints that do not fit on the screen,
unless --verbose or --requirements is set. Output to files and pipes is complete.
Names that begin with KUBE- are the names of the corresponding chains in kube-proxy's iptables mode.
svcmap does not create these chains.

With a Service as destination, svcmapctl explains each of its addresses and ports.

Examples:
  svcmapctl explain 10.96.0.10:80
  svcmapctl explain shop/web                 explain all addresses and ports of a Service
  svcmapctl explain shop/web:http
  svcmapctl explain 10.96.0.10:53/UDP --from 10.244.1.5
  svcmapctl explain 192.0.2.10:30080 --from node
  svcmapctl explain [fd00:96::10]:80 --in-interface cni0
  svcmapctl explain 10.96.0.10:80 --requirements)";

inline constexpr char kWaitFooter[] =
    R"(serving          the agent has a complete state and keeps the kernel up to date
controller       a controller is connected
revision=NUMBER  the agent's revision is at least NUMBER

If the agent is not running yet, svcmapctl waits until the agent starts and the condition is met.

Examples:
  svcmapctl wait
  svcmapctl wait --for revision=12 --timeout 5s)";

inline constexpr char kWatchFooter[] =
    R"(Prints the agent's status, then one line for each event.
Events are commits, findings, repairs, errors, and controllers that connect or disconnect.
Runs until it is interrupted. If the agent stops, svcmapctl exits with code 3.
With -o json, each line is a WatchEvent message of proto/svcmap/v1/control.proto.

Examples:
  svcmapctl watch
  svcmapctl watch -o json | jq -c 'select(.repair)')";

inline constexpr char kCheckFooter[] =
    R"(Connects to each address and port of the Services, and to each of their endpoints.
Compares each result with the prediction of "svcmapctl explain".
Prints each difference with its likely cause.
A UDP server that does not answer is not a difference.

Must run in the network namespace of the agent. --netns and --pid require root.
With --netns or --pid, svcmapctl connects from the namespace of a pod.
Reads the rules of other software with nft and iptables-legacy-save, if installed.

Examples:
  svcmapctl check
  svcmapctl check -n shop --pid $(pgrep -o nginx)
  svcmapctl check --netns cni-1234 --sample 100
  svcmapctl check -o json | jq -r '.differences[] | .service + " " + .cause.kind')";

inline constexpr char kTopFooter[] =
    R"(Requires an agent with --service-counters, except with --endpoints.
With --endpoints, svcmapctl reads the connection tracking table of the node. This requires root and
the network namespace of the agent. TRACKED is the number of connections in the table.
On a terminal, svcmapctl updates the list until it is interrupted.
With --once or without a terminal, svcmapctl prints one interval.

Examples:
  svcmapctl top
  svcmapctl top --sort total --by destination
  svcmapctl top --endpoints shop/web
  svcmapctl top --once --interval 10s --rows 20)";

inline constexpr char kBundleFooter[] =
    R"(The file contains the state of the agent, the rules in the kernel, node settings, and a check.
README.txt in the bundle describes the files. The bundle contains no keys, certificates or tokens.
Run the command as root on the node, even if the agent is not running.

Examples:
  svcmapctl support-bundle
  svcmapctl support-bundle --hash-names bundle.tar.gz
  svcmapctl --bundle bundle.tar.gz status
  svcmapctl --bundle bundle.tar.gz explain 10.96.0.10:80)";

inline constexpr char kFleetFooter[] =
    R"(A sequence number is the "seq" of a transaction of the writer.
status, nodes, wait and serve read the status that svcmap-etcd --status-prefix writes to etcd. They
do not connect to the nodes.

Examples:
  svcmapctl fleet status --etcd-endpoints http://127.0.0.1:2379 --prefix /svcmap/v1/prod \
    --status-prefix /svcmap-status/v1/prod
  svcmapctl fleet nodes --behind --silent ...
  svcmapctl fleet wait --seq 1042 --percent 99 --timeout 2m ...
  svcmapctl fleet explain node-7 10.96.0.10:80 --tls-ca agents-ca.pem ...
  svcmapctl fleet serve --listen 127.0.0.1:10261 ...
  svcmapctl fleet apply -f manifests/ --prune --dry-run ...)";

inline constexpr char kFleetWaitFooter[] =
    R"(Requests a new status from each node, and prints up to 10 missing nodes at the timeout.)";

inline constexpr char kFleetExplainFooter[] =
    R"(Connects to the address that svcmap-etcd --agent-address has written, with --tls-ca, --tls-cert,
--tls-key and --tls-server-name. If svcmapd of the node cannot be reached, prints the status of the
node in etcd and exits with code 3.)";

inline constexpr char kFleetApplyFooter[] =
    R"(For fleets without a controller. Writes only the objects that differ from etcd.)";

inline constexpr char kVersionFooter[] = R"(If the agent does not answer, the exit code is 3.

Examples:
  svcmapctl version
  svcmapctl --version                        print only the version of svcmapctl)";

inline constexpr char kHelpFooter[] = R"(Examples:
  svcmapctl help
  svcmapctl help explain
  svcmapctl help migrate check)";

inline constexpr char kCompletionFooter[] =
    R"(The script completes commands, options, and names of objects that the agent stores.

Examples:
  source <(svcmapctl completion bash)
  svcmapctl completion zsh > /usr/local/share/zsh/site-functions/_svcmapctl
  svcmapctl completion fish > ~/.config/fish/completions/svcmapctl.fish)";

inline constexpr char kMigrateCheckFooter[] =
    R"(Looks for the following conflicts on this node and does not change anything:
- rules of kube-proxy in nf_tables and iptables
- other service proxies
- missing kernel features
- firewall chains that drop forwarded packets by default

Must run as root on the node. If an agent is running, its findings about the node are included.
Requires svcmapd in the directory of svcmapctl or in PATH.
Requires iptables-save if the node has iptables rules.

Examples:
  svcmapctl migrate check
  svcmapctl migrate check -o json | jq -r '.findings[] | select(.level == "attention").what')";

}  // namespace svcmap::api

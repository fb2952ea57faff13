package svcmap

import (
	"strings"

	"github.com/you/svcmap/api/clients/go/internal/rpcv1"
	"github.com/you/svcmap/api/clients/go/svcmapv1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// SnapshotHeldError reports that the agent holds the removals of a snapshot, because they would remove
// too many objects. They wait until an operator runs `svcmapctl accept-snapshot`, or until Set lists enough
// objects.
type SnapshotHeldError struct {
	Loss string // For example "95 of 100 Services".
}

func (e *SnapshotHeldError) Error() string {
	return "svcmap: the agent holds the removals of the snapshot, because they would remove " + e.Loss +
		"; run \"svcmapctl accept-snapshot\" if they are intended"
}

// ErrorInfo returns the reason why an agent ended a call, and the metadata that ErrorReason documents. For
// other errors, the reason is ERROR_REASON_UNSPECIFIED.
func ErrorInfo(err error) (svcmapv1.ErrorReason, map[string]string) {
	for _, detail := range status.Convert(err).Proto().GetDetails() {
		var info rpcv1.ErrorInfo
		if strings.HasSuffix(detail.GetTypeUrl(), "/google.rpc.ErrorInfo") &&
			proto.Unmarshal(detail.GetValue(), &info) == nil && info.GetDomain() == "svcmap.v1" {
			return svcmapv1.ErrorReason(svcmapv1.ErrorReason_value[info.GetReason()]), info.GetMetadata()
		}
	}
	return svcmapv1.ErrorReason_ERROR_REASON_UNSPECIFIED, nil
}

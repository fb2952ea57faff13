// Messages as svcmapd reads them, with objects as bytes.
#pragma once

#include "svcmap/envelope/v1/envelope.pb.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::testing {

template <typename Envelope>
Envelope Reread(const google::protobuf::MessageLite& message) {
  Envelope envelope;
  envelope.ParseFromString(message.SerializeAsString());
  return envelope;
}

inline envelope::v1::Change Encoded(const v1::Change& change) {
  return Reread<envelope::v1::Change>(change);
}

inline envelope::v1::Batch Encoded(const v1::Batch& batch) {
  return Reread<envelope::v1::Batch>(batch);
}

}  // namespace svcmap::testing

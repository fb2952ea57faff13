#include "nft/netlink/answer.h"

#include <cerrno>
#include <cstring>

#include "nft/base/status.h"
#include "nft/netlink/attributes.h"

namespace svcmap::nft {

absl::Status Answer::ToStatus(std::string what) const {
  if (error == 0) return absl::OkStatus();
  if (!text.empty()) what += " (" + text + ")";
  return ErrnoStatus(error, what);
}

// With NETLINK_CAP_ACK, an error does not contain a copy of the request message. An acknowledgement
// never contains a copy of the request.
Answer ReadAnswer(const nlmsghdr* message) {
  Answer answer;
  if (mnl_nlmsg_get_payload_len(message) < sizeof(nlmsgerr)) {
    answer.error = EBADMSG;
    return answer;
  }
  const auto* error = static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(message));
  answer.error = ErrorIn(message);
  if ((message->nlmsg_flags & NLM_F_ACK_TLVS) == 0) return answer;
  size_t offset = sizeof(nlmsgerr);
  if ((message->nlmsg_flags & NLM_F_CAPPED) == 0 && error->error != 0) {
    offset += error->msg.nlmsg_len - sizeof(nlmsghdr);
  }
  if (offset > mnl_nlmsg_get_payload_len(message)) return answer;
  const AttributeTable attributes(message, offset);
  const std::span<const uint8_t> position = AttributeBytes(attributes[NLMSGERR_ATTR_OFFS]);
  if (position.size() == sizeof(uint32_t)) {
    std::memcpy(&answer.attribute_offset.emplace(), position.data(), position.size());
  }
  answer.text = AttributeText(attributes[NLMSGERR_ATTR_MSG]);
  return answer;
}

int ErrorIn(const nlmsghdr* message) {
  constexpr int kMaxErrno = 4095;  // Value of MAX_ERRNO in the kernel.
  if (mnl_nlmsg_get_payload_len(message) < sizeof(int)) return 0;
  int error = 0;
  std::memcpy(&error, mnl_nlmsg_get_payload(message), sizeof(error));
  return error < -kMaxErrno || error > 0 ? EBADMSG : -error;
}

}  // namespace svcmap::nft

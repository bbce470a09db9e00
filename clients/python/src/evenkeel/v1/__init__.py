"""The protocol: `kubernetes_pb2` has objects, `spread_service_pb2` requests and answers."""

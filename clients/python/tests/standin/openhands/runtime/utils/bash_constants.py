TIMEOUT_MESSAGE_TEMPLATE = "What can be done now is told here."

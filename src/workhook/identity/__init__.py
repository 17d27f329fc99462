"""Identity: accounts, members, repositories, collaborators, tokens, policy and audit."""

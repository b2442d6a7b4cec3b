export const replicasAttention = {
  replica_clock: 'warning',
  replicas_differ: 'warning',
  replica_died: 'warning',
} as const;

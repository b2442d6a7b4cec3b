export const driftAttention = {
  payload_drift: 'warning',
} as const;

export const alertsAttention = {
  alerts_not_in_force: 'error',
} as const;

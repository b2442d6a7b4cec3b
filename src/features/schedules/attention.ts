export const schedulesAttention = {
  schedule_overdue: 'error',
  schedule_paused: 'info',
} as const;

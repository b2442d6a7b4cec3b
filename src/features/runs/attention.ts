export const runsAttention = {
  steps_waiting_for_slot: 'warning',
  step_running_long: 'warning',
} as const;

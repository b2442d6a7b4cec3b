export const runsAttention = { step_running_long: 'warning' } as const;

export const httpRequestEvents = {
  CircuitOpened: { eventId: 3010, level: 'warn' },
  CircuitClosed: { eventId: 3011, level: 'info' },
} as const;

export const accessRecordEvents = {
  LoginSucceeded: { eventId: 5001, level: 'info' },
  LoginFailed: { eventId: 5002, level: 'warn' },
  LoggedOut: { eventId: 5003, level: 'info' },
  AccessDenied: { eventId: 5004, level: 'warn' },
} as const;

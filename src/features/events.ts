import { httpRequestEvents } from './http-request/events.ts';

/** Log events of features. The numbers of all are in one table of the docs. */
export const eventParts = [httpRequestEvents] as const;

import { accessRecordEvents } from './access-record/events.ts';
import { httpRequestEvents } from './http-request/events.ts';

/** Log events that features add. One table in the docs lists the numbers of all events. */
export const eventParts = [httpRequestEvents, accessRecordEvents] as const;

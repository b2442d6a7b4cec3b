import { z } from 'zod';
import { option } from '../../config/setting-row.ts';

/** Headers with another meaning: clients and proxies send them without naming a person. */
const TAKEN_HEADER =
  /^(authorization|cookie|connection|content-.*|date|expect|forwarded|from|host|idempotency-key|keep-alive|origin|priority|range|referer|sec-.*|te|trailer|traceparent|transfer-encoding|upgrade.*|user-agent|via|x-forwarded-(for|host|port|proto)|x-real-ip|x-sluice-.*|if-.*|accept.*|cache-control|pragma)$/;
const NAME_OF_HEADER = 'the name of a header of its own, such as Remote-User';
const headerName = () =>
  z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/)
    .transform((name) => name.toLowerCase())
    .refine((name) => !TAKEN_HEADER.test(name));

export const signOnSettings = {
  authUserHeader: option(headerName().optional(), {
    variable: 'SLUICE_AUTH_USER_HEADER',
    contents: 'open',
    replicas: 'same',
    admits: 'people',
    accepts: NAME_OF_HEADER,
    meaning:
      'The header in which a proxy of `SLUICE_TRUSTED_PROXIES` says who signed in there. From anyone else it is dropped.',
  }),
  authGroupsHeader: option(headerName().optional(), {
    variable: 'SLUICE_AUTH_GROUPS_HEADER',
    contents: 'open',
    replicas: 'same',
    accepts: NAME_OF_HEADER,
    meaning:
      'The header in which it names the groups of that person, separated by commas. `SLUICE_TOKENS` says what each may do.',
  }),
};

import { flag, option } from '../../config/setting-row.ts';

export const holdSettings = {
  holdDeliveries: option(flag().default(false), {
    variable: 'SLUICE_HOLD_DELIVERIES',
    contents: 'open',
    replicas: 'same',
    accepts: 'true or false',
    meaning:
      'Whether deliveries to a disabled or drained flow are kept and start their runs when the flow resumes. Otherwise they get 403.',
  }),
};

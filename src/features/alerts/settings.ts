import { z } from 'zod';
import { option } from '../../config/setting-row.ts';
import { type AlertSettings, readAlerts } from './targets.ts';

export const alertsSettings = {
  alerts: option(z.custom<AlertSettings>().optional(), {
    variable: 'SLUICE_ALERTS',
    contents: 'private',
    replicas: 'same',
    isReadAgain: true,
    accepts: 'the path of a JSON file with targets: { "targets": { NAME: { "type", … } } }',
    meaning:
      'Where to report failed runs, refused deploys and other problems: Slack, Teams, Discord, PagerDuty, Opsgenie, a URL or mail.',
    read(given, read) {
      const found = readAlerts(given, read);
      return 'alerts' in found ? { value: found.alerts } : found;
    },
  }),
};

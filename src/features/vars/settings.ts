import { z } from 'zod';
import { option } from '../../config/setting-row.ts';

const NAME = /^[A-Za-z_]\w{0,63}$/;

export const varsSettings = {
  vars: option(
    z
      .record(
        z.string().regex(NAME),
        z.union([z.string(), z.number(), z.boolean()]).transform(String).pipe(z.string().max(4096)),
      )
      .optional(),
    {
      variable: 'SLUICE_VAR_NAME',
      contents: 'open',
      replicas: 'same',
      accepts: 'a text for each name of letters, digits and underscores, such as SLUICE_VAR_REGION=eu',
      meaning:
        'Values that differ between environments and are not secret: expressions in steps read SLUICE_VAR_REGION as vars.REGION.',
    },
  ),
};

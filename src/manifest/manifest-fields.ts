import { manifestParts } from '../features/manifest.ts';
import type { ManifestField } from './manifest-part.ts';

/** The fields that features add to a manifest, by name, in the order of the schema. */
export const MANIFEST_FIELDS: Readonly<Record<string, ManifestField<unknown>>> = Object.assign(
  {},
  ...manifestParts.map(({ fields }) => fields),
);

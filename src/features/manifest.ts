import type { ManifestPart } from '../manifest/manifest-part.ts';
import { onFailureManifest } from './on-failure/manifest.ts';
import { orderManifest } from './order/manifest.ts';

/** Fields that features add to a manifest. */
export const manifestParts: readonly ManifestPart[] = [onFailureManifest, orderManifest];

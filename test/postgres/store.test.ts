import { storeConformance } from '../store/conformance.ts';
import { openEmpty } from './schemas.ts';

storeConformance('PostgreSQL', openEmpty);

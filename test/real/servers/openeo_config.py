"""The configuration of openeo_server.py, which openeo_driver finds by OPENEO_BACKEND_CONFIG."""
import os

from openeo_driver.asset_urls import AssetUrl
from openeo_driver.config import OpenEoBackendConfig
from openeo_driver.urlsigning import UrlSigner
from openeo_driver.users.oidc import OidcProvider

base = os.environ["EODISPATCH_BASE"]

config = OpenEoBackendConfig(
    id="eodispatch-test",
    capabilities_title="An openEO back-end for tests",
    oidc_providers=[OidcProvider(id="test", issuer=f"{base}/oidc", title="test", scopes=["openid"])],
    url_signer=UrlSigner(secret="only for tests", expiration=600),
    asset_url=AssetUrl(),
)
